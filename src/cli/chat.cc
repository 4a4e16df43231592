#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <unistd.h>

#include "base/json.h"
#include "base/new_file.h"
#include "cli/model_options.h"
#include "cli/progress.h"

namespace kvik::cli {
namespace {

struct ChatOptions {
  ModelOptions model;
  GenerateOptions generate;
  std::string system;
};

constexpr const char* kHelp =
    "  /reset    forget the conversation\n"
    "  /undo     forget the last question and its answer\n"
    "  /fork     remember this point; /back returns to it\n"
    "  /back     return to the last /fork\n"
    "  /save F   write the conversation to a file, and its cache to F.kv\n"
    "  /load F   read both; nothing is computed again\n"
    "  /stats    what the last answer cost\n"
    "  /quit     leave (so does the end of input)\n";

// A conversation with a model that has a chat template, or a text that both write on for one that has none.
class Chat {
 public:
  Chat(Model model, const ChatOptions& options, const Terminal& terminal)
      : model_(std::move(model)),
        options_(options),
        terminal_(terminal),
        session_(model_.session()),
        interactive_(isatty(STDIN_FILENO) != 0) {
    clear();
  }

  int run() {
    if (interactive_ && !terminal_.quiet)
      fmt::print(stderr, "kvik: {} on {}; /help lists commands, Ctrl-C stops an answer\n", model_.backend(), model_.device());
    for (std::string line; prompt(), std::getline(std::cin, line);) {
      if (line.empty()) continue;
      if (line.front() == '/') {
        if (line == "/quit" || line == "/exit") break;
        command(line);
        continue;
      }
      try {
        answer(line);
      } catch (const Error& e) {
        // The question goes, the conversation stays.
        messages_.erase(messages_.size() - 1);
        fmt::print(stderr, "kvik: {}\n", e.what());
        if (!interactive_) return 1;
      }
    }
    return 0;
  }

 private:
  void prompt() const {
    if (interactive_) std::cout << "> " << std::flush;
  }

  void clear() {
    messages_ = Json::array();
    if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
  }

  std::vector<TokenId> conversation_ids() const {
    if (model_.has_chat_template()) {
      return model_.tokenize(model_.apply_chat_template(messages_.dump(-1, ' ', false, Json::error_handler_t::replace)), false);
    }
    std::string text;
    for (const Json& message : messages_) text += message["content"].get<std::string>();
    return model_.tokenize(text);
  }

  void answer(const std::string& question) {
    messages_.push_back({{"role", "user"}, {"content", question}});
    GenerateOptions generate = options_.generate;
    Interrupt::forget();
    const Interrupt interrupt;
    generate.cancelled = [] { return Interrupt::happened(); };
    Progress progress(terminal_, "reading");
    generate.progress = [&](int done, int total) { progress.show(done, total); };
    Generation generation = model_.generate(session_, conversation_ids(), generate);
    progress.clear();
    std::string text;
    while (const std::optional<std::string_view> piece = generation.next()) {
      text += *piece;
      std::cout << *piece << std::flush;
    }
    std::cout << std::endl;
    if (generation.finish() == Finish::kLength && !terminal_.quiet)
      fmt::print(stderr, "kvik: the answer was cut at its longest; see --max-tokens and --context\n");
    messages_.push_back({{"role", "assistant"}, {"content", text}});
    metrics_ = generation.metrics();
  }

  void command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
    try {
      if (name == "/reset") {
        clear();
        session_.reset();
      } else if (name == "/undo") {
        undo();
      } else if (name == "/fork") {
        forks_.emplace_back(messages_, session_.fork());
      } else if (name == "/back") {
        back();
      } else if (name == "/save") {
        save(argument);
      } else if (name == "/load") {
        load(argument);
      } else if (name == "/stats") {
        stats();
      } else {
        if (name != "/help") fmt::print(stderr, "kvik: there is no command {}; there are:\n", name);
        fmt::print(stderr, "{}", kHelp);
      }
    } catch (const Error& e) { fmt::print(stderr, "kvik: {}\n", e.what()); }
  }

  void undo() {
    while (!messages_.empty() && messages_.back()["role"] != "system") {
      const bool question = messages_.back()["role"] == "user";
      messages_.erase(messages_.size() - 1);
      if (question) return;  // what the cache holds of it is dropped by the next answer
    }
    throw Error(Code::kBadArgument, "there is nothing to undo");
  }

  void back() {
    if (forks_.empty()) throw Error(Code::kBadArgument, "there is no /fork to return to");
    messages_ = forks_.back().first;
    session_ = forks_.back().second.fork();
  }

  void save(const std::string& file) const {
    if (file.empty()) throw Error(Code::kBadArgument, "/save needs the name of a file");
    write_file(file, messages_.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    session_.save(cache_beside(file));
    if (!terminal_.quiet)
      fmt::print(stderr, "kvik: the conversation is in {}, its cache ({:.1f} MB) in {}\n", file,
                 static_cast<double>(std::filesystem::file_size(cache_beside(file))) / 1e6, cache_beside(file));
  }

  void load(const std::string& file) {
    if (file.empty()) throw Error(Code::kBadArgument, "/load needs the name of a file");
    Json read = read_json_file(file);
    bool sound = read.is_array();
    for (const Json& message : read)
      sound = sound && message.is_object() && message.value("role", Json()).is_string() && message.value("content", Json()).is_string();
    if (!sound) throw Error(Code::kBadArgument, fmt::format("{}: a list of messages with role and content was expected", file));
    messages_ = std::move(read);
    restore_cache(cache_beside(file));
  }

  // Without it the next answer reads the conversation again.
  void restore_cache(const std::string& file) {
    if (!std::filesystem::exists(file)) return;
    try {
      session_ = model_.load_session(file);
    } catch (const Error& e) { fmt::print(stderr, "kvik: the conversation will be read again: {}\n", e.what()); }
  }

  static std::string cache_beside(const std::string& file) { return file + ".kv"; }

  void stats() const {
    fmt::print(stderr,
               "kvik: {} tokens in the context ({:.1f} MB), {} of the last prompt were computed and {} reused; first token after {:.0f} "
               "ms, then {:.1f} tokens/s\n",
               session_.length(), static_cast<double>(session_.metrics().cache_bytes) / 1e6, metrics_.prompt_tokens, metrics_.reused_tokens,
               metrics_.first_token_ms, metrics_.decode_tokens_per_s());
  }

  Model model_;
  const ChatOptions& options_;
  const Terminal& terminal_;
  Session session_;
  bool interactive_;
  Json messages_;
  Metrics metrics_;
  std::vector<std::pair<Json, Session>> forks_;
};

}  // namespace

void add_chat(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("chat", "Talk to a model in the terminal; only new tokens are computed");
  auto options = std::make_shared<ChatOptions>();
  add_model_options(*command, options->model, commands.terminal);
  command->add_option("--system", options->system, "What the model is told before the conversation")->option_text("TEXT");
  add_sampling_options(*command, options->generate);
  command->callback(
      [=] { commands.run = [=] { return Chat(load_model(options->model, commands.terminal), *options, commands.terminal).run(); }; });
}

}  // namespace kvik::cli
