#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

#include "base/json.h"
#include "base/new_file.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/target_options.h"

namespace kvik::cli {
namespace {

struct ChatOptions {
  ModelOptions model;
  GenerateOptions generate;
  SpeculationOptions speculation;
  std::string system;
};

constexpr const char* kHelp =
    "  /reset    forget the conversation\n"
    "  /undo     remove the last question and its answer\n"
    "  /fork     mark this point; /back returns to it\n"
    "  /back     return to the last /fork\n"
    "  /save F   save the conversation to F and its cache to F.kv\n"
    "  /load F   load both; nothing is recomputed\n"
    "  /stats    show the cost of the last answer\n"
    "  /quit     quit (end of input does the same)\n";

// A conversation. A model without a chat template continues the text of all messages instead.
class Chat {
 public:
  Chat(Model model, const ChatOptions& options, const Terminal& terminal)
      : model_(std::move(model)),
        options_(options),
        terminal_(terminal),
        session_(model_.session()),
        generate_(options.generate),
        interactive_(isatty(STDIN_FILENO) != 0) {
    apply(options.speculation, options.model, terminal, generate_);
    clear();
  }

  int run() {
    if (interactive_ && !terminal_.quiet)
      print_message("{} on {}; /help lists commands, Ctrl-C stops an answer", model_.backend(), model_.device());
    const Interrupt interrupt;
    int status = 0;
    while (const std::optional<std::string> line = next_line()) {
      if (line->empty()) continue;
      if (line->front() == '/') {
        if (*line == "/quit" || *line == "/exit") break;
        command(*line);
      } else if (!try_answer(*line) && !interactive_) {
        status = 1;
        break;
      }
    }
    if (terminal_.json) print_json();
    return status;
  }

 private:
  // The user's next line; nothing at the end of the input, or if Ctrl-C was pressed while a script waits for it. A user who presses
  // Ctrl-C at the prompt gets a new one.
  std::optional<std::string> next_line() {
    for (;;) {
      if (interactive_) print_error_text("> ");
      std::optional<std::string> line = input_.next_line();
      if (line || !interactive_ || !Interrupt::happened()) return line;
      Interrupt::reset();
      print_error_text("\n");
      print_message("/quit or Ctrl-D ends the conversation");
    }
  }

  bool try_answer(const std::string& question) {
    const size_t n_messages = messages_.size();
    try {
      answer(question);
      return true;
    } catch (const Error& e) {
      if (e.code() == Code::kIo) throw;  // the answer cannot be printed
      messages_.erase(messages_.begin() + static_cast<ptrdiff_t>(n_messages), messages_.end());
      print_sentence(e.what());
      return false;
    }
  }

  void print_json() const {
    const Json all = {{"messages", messages_}, {"backend", model_.backend()}, {"device", model_.device()}};
    print_result("{}\n", all.dump(-1, ' ', false, Json::error_handler_t::replace));
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
    GenerateOptions generate = generate_;
    generate.cancelled = [] { return Interrupt::happened(); };
    Progress progress(terminal_, "reading");
    generate.progress = [&](int done, int total) { progress.show(done, total); };
    Generation generation = model_.generate(session_, conversation_ids(), generate);
    progress.clear();
    std::string text;
    while (const std::optional<std::string_view> piece = generation.next()) {
      text += *piece;
      if (terminal_.json) continue;
      print_text(*piece);
      flush_output();
    }
    if (!terminal_.json) print_text("\n");
    flush_output();
    Interrupt::reset();  // Ctrl-C stopped only this answer
    if (generation.finish() == Finish::kLength && !terminal_.quiet)
      print_message("the answer reached its maximum length; see --max-tokens and --context");
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
        if (name != "/help") print_message("there is no command {}; the commands are:", name);
        print_error_text(kHelp);
      }
    } catch (const Error& e) { print_sentence(e.what()); }
  }

  void undo() {
    while (!messages_.empty() && messages_.back()["role"] != "system") {
      const bool question = messages_.back()["role"] == "user";
      messages_.erase(messages_.size() - 1);
      if (question) return;  // the next answer drops it from the cache
    }
    throw Error(Code::kBadArgument, "there is nothing to undo");
  }

  void back() {
    if (forks_.empty()) throw Error(Code::kBadArgument, "there is no /fork to return to");
    messages_ = forks_.back().first;
    session_ = forks_.back().second.fork();
  }

  void save(const std::string& file) const {
    if (file.empty()) throw Error(Code::kBadArgument, "/save needs a file name");
    write_file(file, messages_.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    session_.save(cache_file(file));
    if (!terminal_.quiet)
      print_message("saved the conversation to {} and its cache ({:.1f} MB) to {}", file,
                    static_cast<double>(std::filesystem::file_size(cache_file(file))) / 1e6, cache_file(file));
  }

  void load(const std::string& file) {
    if (file.empty()) throw Error(Code::kBadArgument, "/load needs a file name");
    Json read = read_json_file(file);
    bool sound = read.is_array();
    for (const Json& message : read)
      sound = sound && message.is_object() && message.value("role", Json()).is_string() && message.value("content", Json()).is_string();
    if (!sound) throw Error(Code::kBadArgument, fmt::format("{}: a list of messages with role and content was expected", file));
    messages_ = std::move(read);
    restore_cache(cache_file(file));
  }

  // Without it the next answer recomputes the conversation.
  void restore_cache(const std::string& file) {
    if (!std::filesystem::exists(file)) return;
    try {
      session_ = model_.load_session(file);
    } catch (const Error& e) { print_message("the conversation will be recomputed: {}", e.what()); }
  }

  static std::string cache_file(const std::string& file) { return file + ".kv"; }

  void stats() const {
    print_message(
        "{} tokens in the context ({:.1f} MB), {} of the last prompt were computed and {} reused; first token after {:.0f} ms, then {:.1f} "
        "tokens/s{}",
        session_.length(), static_cast<double>(session_.metrics().cache_bytes) / 1e6, metrics_.prompt_tokens, metrics_.reused_tokens,
        metrics_.first_token_ms, metrics_.decode_tokens_per_s(), describe_speculation(metrics_));
  }

  Model model_;
  const ChatOptions& options_;
  const Terminal& terminal_;
  Session session_;
  GenerateOptions generate_;
  bool interactive_;
  StandardInput input_;
  Json messages_;
  Metrics metrics_;
  std::vector<std::pair<Json, Session>> forks_;
};

}  // namespace

void add_chat(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("chat", "Chat with a model in the terminal; each turn computes only new tokens");
  auto options = std::make_shared<ChatOptions>();
  add_model_options(*command, options->model, commands.terminal);
  command->add_option("--system", options->system, "System message")->option_text("TEXT");
  add_speculation_options(*command, options->speculation);
  add_generation_options(*command, options->generate);
  command->callback(
      [=] { commands.run = [=] { return Chat(load_model(options->model, commands.terminal), *options, commands.terminal).run(); }; });
}

}  // namespace kvik::cli
