#include <fmt/format.h>
#include <iostream>

#include "base/json.h"
#include "cli/model_options.h"
#include "kvik/error.h"
#include "text/stream.h"
#include "text/tokenizer.h"

namespace kvik::cli {
namespace {

struct TokenizeOptions {
  std::string model;
  std::optional<std::string> text;
  bool decode = false;
  bool json_lines = false;
  bool special = true;  // added when encoding, kept when decoding
  bool target = false;
  bool stream = false;
  std::string language;
};

std::string read_input(const TokenizeOptions& options) {
  if (options.text && *options.text != "-") return *options.text;
  return read_standard_input();
}

std::string join_stream(const std::shared_ptr<const text::Tokenizer>& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  std::string joined;
  text::DetokenizerStream stream(tokenizer, skip_special);
  for (const TokenId id : ids) joined += stream.push(id);
  return joined += stream.flush();
}

std::string ids_line(const std::vector<TokenId>& ids) {
  std::string line = "{\"ids\":[";
  for (size_t i = 0; i < ids.size(); ++i) line += fmt::format("{}{}", i == 0 ? "" : ",", ids[i]);
  return line += "]}";
}

// ASCII only: a text may hold characters that other programs take for the end of a line.
std::string json_line(const Json& object) { return object.dump(-1, ' ', true, Json::error_handler_t::replace); }

std::vector<TokenId> ids_of(const Json& list) {
  std::vector<TokenId> ids;
  for (const Json& id : list) {
    const bool sound = id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX;
    if (!sound) throw Error(Code::kBadArgument, fmt::format("{} is no token id; whole numbers were expected", id.dump().substr(0, 60)));
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

bool flag_of(const Json& request, const char* key, bool absent) {
  const auto found = request.find(key);
  if (found == request.end()) return absent;
  if (!found->is_boolean())
    throw Error(Code::kBadArgument, fmt::format("'{}' is {}; true or false was expected", key, found->dump().substr(0, 60)));
  return found->get<bool>();
}

// One line in, one line out; what is wrong with a line is said in its place.
std::string answer(const std::shared_ptr<const text::Tokenizer>& tokenizer, const TokenizeOptions& options, const std::string& line) {
  try {
    const Json request = parse_json(line, "standard input");
    if (request.is_object() && request.contains("text") && request["text"].is_string()) {
      text::EncodeOptions how;
      how.add_special = flag_of(request, "special", options.special);
      how.side = flag_of(request, "target", options.target) ? text::Side::kTarget : text::Side::kSource;
      how.language = options.language;
      return ids_line(tokenizer->encode(request["text"].get_ref<const std::string&>(), how));
    }
    if (request.is_object() && request.contains("ids") && request["ids"].is_array()) {
      const std::vector<TokenId> ids = ids_of(request["ids"]);
      const bool skip = flag_of(request, "skip_special", !options.special);
      const std::string text =
          flag_of(request, "stream", options.stream) ? join_stream(tokenizer, ids, skip) : tokenizer->decode(ids, skip);
      return json_line({{"text", text}});
    }
    throw Error(Code::kBadArgument, "a line is no object with 'text' or 'ids'");
  } catch (const std::exception& e) { return json_line({{"error", e.what()}}); }
}

int run(const TokenizeOptions& options, const Terminal& terminal) {
  const auto tokenizer = text::Tokenizer::load(api::find_model(options.model, terminal.environment).folder);
  if (options.json_lines) {
    for (std::string line; std::getline(std::cin, line);) {
      if (!line.empty()) std::cout << answer(tokenizer, options, line) << '\n' << std::flush;
    }
    return 0;
  }
  if (options.decode) {
    const std::string text = tokenizer->decode(parse_ids(read_input(options)), !options.special);
    std::cout << (terminal.json ? json_line({{"text", text}}) : text) << '\n';
    return 0;
  }
  text::EncodeOptions how;
  how.add_special = options.special;
  how.side = options.target ? text::Side::kTarget : text::Side::kSource;
  how.language = options.language;
  const std::vector<TokenId> ids = tokenizer->encode(read_input(options), how);
  if (terminal.json) {
    std::cout << ids_line(ids) << '\n';
    return 0;
  }
  for (size_t i = 0; i < ids.size(); ++i) std::cout << (i == 0 ? "" : " ") << ids[i];
  std::cout << '\n';
  return 0;
}

}  // namespace

void add_tokenize(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("tokenize", "Text to token ids and back");
  auto options = std::make_shared<TokenizeOptions>();
  command->add_option("MODEL", options->model, "A folder with tokenizer files, an .onnx file beside them, or the name of a model")
      ->required();
  command->add_option("TEXT", options->text, "What to encode, or ids to decode; standard input where it is absent or -");
  command->add_flag("-d,--decode", options->decode, "Ids to text");
  command->add_flag(
      "--json-lines", options->json_lines,
      "Read a JSON object a line, {\"text\":…,\"special\":true} or {\"ids\":[…],\"skip_special\":false}, and answer each with a line");
  command->add_flag("--special,!--no-special", options->special, "Add special tokens when encoding, keep them when decoding (the default)");
  command->add_flag("--target", options->target, "The text is on the target side of a translation");
  command->add_flag("--stream", options->stream, "Decode token by token, as generation does");
  command->add_option("--language", options->language, "The language of the text, for models that mark it");
  add_common_options(*command, commands.terminal);
  command->callback([commands, options] { commands.run = [options, &terminal = commands.terminal] { return run(*options, terminal); }; });
}

}  // namespace kvik::cli
