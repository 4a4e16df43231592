#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/elapsed.h"
#include "base/json.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/validators.h"

namespace kvik::cli {
namespace {

constexpr size_t kLinesAtOnce = 256;

struct EmbedCommand {
  ModelOptions model;
  EmbedOptions options;
  std::string text, ids, prompt;
  bool has_text = false, has_ids = false, has_prompt = false;
  bool no_normalize = false, no_truncate = false;
};

// Lines in, lines out: one vector per line, its numbers separated by spaces.
class EmbeddingLines {
 public:
  EmbeddingLines(const Model& model, const EmbedCommand& command, const Terminal& terminal)
      : model_(model), terminal_(terminal), options_(command.options), progress_(terminal, "embedding") {
    if (command.has_prompt) options_.prompt = command.prompt;
    if (command.no_normalize) options_.normalize = false;
    options_.truncate = !command.no_truncate;
    options_.cancelled = [] { return Interrupt::happened(); };
    options_.progress = [this](int done, int total) {
      progress_.show(static_cast<int>(n_texts_) + done, static_cast<int>(n_texts_) + total);
    };
  }

  int run(const EmbedCommand& command) {
    const auto start = std::chrono::steady_clock::now();
    if (command.has_ids) {
      const std::vector<TokenId> texts[] = {parse_ids(command.ids)};
      add(model_.embed(texts, options_));
    } else if (command.has_text && command.text != "-") {
      add(model_.embed({command.text}, options_));
    } else {
      StandardInput input;
      for (std::vector<std::string> lines = input.next_lines(kLinesAtOnce); !lines.empty() && !Interrupt::happened();
           lines = input.next_lines(kLinesAtOnce))
        add(model_.embed(lines, options_));
    }
    progress_.clear();
    const double ms = ms_since(start);
    if (terminal_.json) {
      print_json(ms);
    } else if (!terminal_.quiet) {
      print_message("{} on {}: {} of {} dimensions in {:.0f} ms, {} tokens ({:.1f}/s)", model_.backend(), model_.device(),
                    n_texts_ == 1 ? "1 vector" : fmt::format("{} vectors", n_texts_), model_.embedding_size(options_), ms, n_tokens_,
                    static_cast<double>(n_tokens_) / (ms / 1e3));
    }
    return 0;
  }

 private:
  void add(std::vector<Embedding> found) {
    for (Embedding& one : found) {
      if (one.values.empty()) break;  // interrupted
      ++n_texts_;
      n_tokens_ += one.tokens;
      if (terminal_.json) {
        tokens_.push_back(one.tokens);
        embeddings_.push_back(one.values);
      } else {
        print_result("{}\n", fmt::join(one.values, " "));
      }
    }
    flush_output();
  }

  void print_json(double ms) {
    const Json all = {{"embeddings", std::move(embeddings_)},
                      {"tokens", std::move(tokens_)},
                      {"dimensions", model_.embedding_size(options_)},
                      {"backend", model_.backend()},
                      {"timing",
                       {{"load_ms", model_.load_ms()},
                        {"embed_ms", ms},
                        {"texts_per_s", static_cast<double>(n_texts_) / (ms / 1e3)},
                        {"tokens_per_s", static_cast<double>(n_tokens_) / (ms / 1e3)}}}};
    print_result("{}\n", all.dump());
  }

  const Model& model_;
  const Terminal& terminal_;
  EmbedOptions options_;
  Progress progress_;
  size_t n_texts_ = 0;
  int64_t n_tokens_ = 0;
  Json embeddings_ = Json::array(), tokens_ = Json::array();
};

}  // namespace

void add_embed(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("embed", "Compute the vector of a text, or of each line of standard input");
  auto options = std::make_shared<EmbedCommand>();
  add_model_options(*command, options->model, commands.terminal);
  CLI::Option* text =
      command->add_option("TEXT", options->text, "Text to embed; - or nothing reads standard input line by line")->option_text(" ");
  CLI::Option* ids = command->add_option("--ids", options->ids, "Token ids instead of text, used unchanged: 1,2,3")->option_text("IDS");
  ids->excludes(text);
  command
      ->add_option(
          "--pooling", options->options.pooling,
          "How hidden states are pooled: cls, mean, max, mean_sqrt_len, weightedmean, lasttoken, several joined by +, or graph for the "
          "vector that the graph computes; default: as the model's files specify")
      ->option_text("NAME");
  command->add_flag("--no-normalize", options->no_normalize, "Do not normalize vectors to length 1");
  CLI::Option* prompt = command->add_option("--prompt", options->prompt, "Name of the model's prompt to put before each text; \"\": none")
                            ->option_text("NAME");
  command->add_option("--dimensions", options->options.dimensions, "Keep only the first N numbers of a vector; 0: all")
      ->check(at_least(0))
      ->option_text("N");
  command->add_flag("--no-truncate", options->no_truncate, "Fail if a text is too long for the model, instead of truncating it");
  command->callback([=] {
    options->has_text = text->count() > 0;
    options->has_ids = ids->count() > 0;
    options->has_prompt = prompt->count() > 0;
    commands.run = [=] {
      const Model model = load_model(options->model, commands.terminal);
      const Interrupt interrupt;
      return EmbeddingLines(model, *options, commands.terminal).run(*options);
    };
  });
}

}  // namespace kvik::cli
