#include <fmt/format.h>

#include "base/json.h"
#include "cli/encode_stream.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "kvik/error.h"
#include "kvik/text.h"

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

// Calls f for each part of the text: the argument, or standard input as it arrives.
template <class F>
void for_each_part(const TokenizeOptions& options, const F& f) {
  if (options.text && *options.text != "-") {
    f(std::string_view(*options.text));
    return;
  }
  StandardInput input;
  for (std::string_view part = input.next_part(); !part.empty(); part = input.next_part()) f(part);
}

std::string join_stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  std::string joined;
  Detokenizer stream(tokenizer, skip_special);
  for (const TokenId id : ids) joined += stream.push(id);
  return joined += stream.flush();
}

std::string ids_line(const std::vector<TokenId>& ids) {
  std::string line = "{\"ids\":[";
  for (size_t i = 0; i < ids.size(); ++i) line += fmt::format("{}{}", i == 0 ? "" : ",", ids[i]);
  return line += "]}";
}

// ASCII only, because a text may contain characters that other programs treat as line breaks.
std::string json_line(const Json& object) { return object.dump(-1, ' ', true, Json::error_handler_t::replace); }

std::vector<TokenId> ids_of(const Json& list) {
  std::vector<TokenId> ids;
  for (const Json& id : list) {
    const bool sound = id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX;
    if (!sound) throw Error(Code::kBadArgument, fmt::format("{} is not a token id; whole numbers were expected", id.dump().substr(0, 60)));
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

// One line in, one line out; an error is reported in place of the line's result.
std::string answer_line(const Tokenizer& tokenizer, const TokenizeOptions& options, const std::string& line) {
  try {
    const Json request = parse_json(line, "standard input");
    if (request.is_object() && request.contains("text") && request["text"].is_string()) {
      const EncodeOptions encode{.add_special = flag_of(request, "special", options.special),
                                 .target = flag_of(request, "target", options.target),
                                 .language = options.language};
      return ids_line(tokenizer.encode(request["text"].get_ref<const std::string&>(), encode));
    }
    if (request.is_object() && request.contains("ids") && request["ids"].is_array()) {
      const std::vector<TokenId> ids = ids_of(request["ids"]);
      const bool skip = flag_of(request, "skip_special", !options.special);
      const std::string text = flag_of(request, "stream", options.stream) ? join_stream(tokenizer, ids, skip) : tokenizer.decode(ids, skip);
      return json_line({{"text", text}});
    }
    throw Error(Code::kBadArgument, "a line is not an object with 'text' or 'ids'");
  } catch (const std::exception& e) { return json_line({{"error", e.what()}}); }
}

// Decodes ids separated by commas, spaces and brackets, as they arrive.
class IdReader {
 public:
  explicit IdReader(std::function<void(TokenId)> take) : take_(std::move(take)) {}

  void push(std::string_view part) {
    text_ += part;
    const size_t last_separator = text_.find_last_of(kIdSeparators);
    if (last_separator == std::string::npos && text_.size() < kMaxIdBytes) return;
    for (const TokenId id : parse_ids(text_.substr(0, last_separator))) take_(id);
    text_.erase(0, std::min(last_separator, text_.size()));
  }
  void finish() {
    for (const TokenId id : parse_ids(text_)) take_(id);
  }

 private:
  static constexpr size_t kMaxIdBytes = 64;
  std::function<void(TokenId)> take_;
  std::string text_;
};

void decode_input(const Tokenizer& tokenizer, const TokenizeOptions& options, const Terminal& terminal) {
  std::string text;  // all of it for --json, else what is not printed yet
  Detokenizer stream(tokenizer, !options.special);
  IdReader reader([&](TokenId id) {
    if (id >= tokenizer.end_id()) tokenizer.decode({&id, 1});  // throws
    text += stream.push(id);
  });
  for_each_part(options, [&](std::string_view part) {
    reader.push(part);
    if (terminal.json) return;
    print_text(text);
    text.clear();
  });
  reader.finish();
  text += stream.flush();
  print_result("{}\n", terminal.json ? json_line({{"text", text}}) : text);
}

void encode_input(const Tokenizer& tokenizer, const TokenizeOptions& options, const Terminal& terminal) {
  const EncodeOptions whole{.add_special = options.special, .target = options.target, .language = options.language};
  const EncodeOptions middle{.add_special = false, .target = options.target};
  print_text(terminal.json ? "{\"ids\":[" : "");
  const char* separator = "";
  EncodeStream stream([&](std::string_view text,
                          EncodeStream::Part part) { return tokenizer.encode(text, part == EncodeStream::Part::kWhole ? whole : middle); },
                      [&](std::span<const TokenId> ids) {
                        for (const TokenId id : ids) {
                          print_result("{}{}", separator, id);
                          separator = terminal.json ? "," : " ";
                        }
                      });
  for_each_part(options, [&](std::string_view part) { stream.push(part); });
  stream.finish();
  print_text(terminal.json ? "]}\n" : "\n");
}

int tokenize_input(const TokenizeOptions& options, const Terminal& terminal) {
  const Tokenizer tokenizer = Tokenizer::load(options.model);
  const Interrupt interrupt;
  if (options.json_lines) {
    StandardInput input;
    while (const std::optional<std::string> line = input.next_line()) {
      if (line->empty()) continue;
      print_result("{}\n", answer_line(tokenizer, options, *line));
      flush_output();
    }
  } else if (options.decode) {
    decode_input(tokenizer, options, terminal);
  } else {
    encode_input(tokenizer, options, terminal);
  }
  return 0;
}

}  // namespace

void add_tokenize(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("tokenize", "Convert text to token ids and back");
  auto options = std::make_shared<TokenizeOptions>();
  command->add_option("MODEL", options->model, "Folder with tokenizer files, .onnx file in such a folder, or name of a model")
      ->required()
      ->option_text(" ");
  command->add_option("TEXT", options->text, "Text to encode, or ids to decode; - or nothing reads standard input")->option_text(" ");
  command->add_flag("-d,--decode", options->decode, "Decode ids to text");
  command->add_flag(
      "--json-lines", options->json_lines,
      "Read one JSON object per line, {\"text\":…,\"special\":true} or {\"ids\":[…],\"skip_special\":false}, and print one line for each");
  command->add_flag("--special,!--no-special", options->special, "Add special tokens when encoding, keep them when decoding (the default)");
  command->add_flag("--target", options->target, "Encode as target text of a translation model");
  command->add_flag("--stream", options->stream, "With --json-lines: decode token by token, as generation does");
  command->add_option("--language", options->language, "Language of the text, for models whose tokenizer marks it")->option_text("NAME");
  add_common_options(*command, commands.terminal);
  command->callback(
      [commands, options] { commands.run = [options, &terminal = commands.terminal] { return tokenize_input(*options, terminal); }; });
}

}  // namespace kvik::cli
