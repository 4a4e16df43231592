#include <chrono>
#include <fmt/format.h>
#include <unistd.h>

#include "base/elapsed.h"
#include "base/json.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/target_options.h"
#include "cli/validators.h"

namespace kvik::cli {
namespace {

struct TranslateCommand {
  ModelOptions model;
  TranslateOptions options;
  std::string text, ids, features;
  bool has_text = false, has_ids = false;
};

constexpr size_t kBatchesAtOnce = 16;  // lines of similar length among these share a batch

// Lines of similar length share a batch; they are printed in the order of the input.
class TranslationRun {
 public:
  TranslationRun(const Model& model, const TranslateCommand& command, const Terminal& terminal)
      : model_(model), command_(command), terminal_(terminal), progress_(terminal, "translating") {}

  int run() {
    terminal_.log().info("translating");
    const auto start = std::chrono::steady_clock::now();
    if (!command_.features.empty()) {
      add(model_.translate(read_features(command_.features, model_.feature_rank()), options()));
    } else if (command_.has_ids) {
      const std::vector<TokenId> sources[] = {parse_ids(command_.ids)};
      add(model_.translate(sources, options()));
    } else if (command_.has_text && command_.text != "-") {
      add(model_.translate({command_.text}, options()));
    } else {
      for (std::vector<std::string> lines = read_lines(); !lines.empty() && !Interrupt::happened(); lines = read_lines())
        add(model_.translate(lines, options()));
    }
    progress_.clear();
    const double ms = ms_since(start);
    if (terminal_.json) {
      print_json(ms);
    } else if (!terminal_.quiet) {
      print_timing(ms);
    }
    return 0;
  }

 private:
  TranslateOptions options() {
    TranslateOptions options = command_.options;
    options.first_index = n_sources_;
    options.scores = terminal_.json;
    options.cancelled = [] { return Interrupt::happened(); };
    options.progress = [this](int done, int total) {
      progress_.show(n_translated_ + done, n_translated_ + total);
      flush_output();
    };
    options.on_translation = [this](size_t, const Translation& line) {
      if (!terminal_.json) print_result("{}\n", shown(model_, line));
    };
    return options;
  }

  void add(std::vector<Translation> found) {
    n_sources_ += found.size();
    for (Translation& result : found) {
      if (result.finish != Finish::kCancelled) ++n_translated_;
      n_target_tokens_ += result.ids.size();
      if (terminal_.json) results_.push_back(std::move(result));
    }
    flush_output();
  }

  std::vector<std::string> read_lines() { return input_.next_lines(kBatchesAtOnce * static_cast<size_t>(command_.options.batch)); }

  void print_timing(double ms) const {
    const double seconds = ms / 1e3;
    print_message("{} on {}: {} in {:.0f} ms ({:.1f}/s), {} new tokens ({:.1f}/s)", model_.backend(), model_.device(),
                  n_translated_ == 1 ? "1 line" : fmt::format("{} lines", n_translated_), ms, n_translated_ / seconds, n_target_tokens_,
                  static_cast<double>(n_target_tokens_) / seconds);
  }

  void print_json(double ms) const {
    Json results = Json::array();
    for (const Translation& line : results_) {
      Json entry = to_json(line);
      entry["source_ids"] = line.source_ids;
      add_json(entry, line.hypotheses);
      results.push_back(std::move(entry));
    }
    const double seconds = ms / 1e3;
    const SourceWork work = model_.source_work();
    const Json timing = {{"load_ms", model_.load_ms()},
                         {"translate_ms", ms},
                         {"sentences_per_s", n_translated_ / seconds},
                         {"tokens_per_s", static_cast<double>(n_target_tokens_) / seconds},
                         {"sources_encoded", work.encoded},
                         {"sources_projected", work.cross_projected}};
    const Json all = {{"results", results}, {"backend", model_.backend()}, {"timing", timing}};
    print_result("{}\n", all.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  const Model& model_;
  const TranslateCommand& command_;
  const Terminal& terminal_;
  Progress progress_;
  StandardInput input_;
  size_t n_sources_ = 0;
  int n_translated_ = 0;
  size_t n_target_tokens_ = 0;
  std::vector<Translation> results_;  // for --json
};

}  // namespace

void add_translate(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("translate", "Translate a text, or each line of standard input");
  auto options = std::make_shared<TranslateCommand>();
  add_model_options(*command, options->model, commands.terminal);
  CLI::Option* text =
      command->add_option("TEXT", options->text, "Text to translate; - or nothing reads standard input line by line")->option_text(" ");
  CLI::Option* ids = command->add_option("--ids", options->ids, "Source token ids instead of text: 1,2,3")->option_text("IDS");
  ids->excludes(text);
  command->add_option("--features", options->features, "Input features of an audio or image encoder, with or without a batch axis")
      ->option_text("FILE.npy");
  command->add_option("--language", options->options.language, "Target language, if the model has several")->option_text("NAME");
  command->add_option("--source-language", options->options.source_language, "Source language, if the model has several")
      ->option_text("NAME");
  command->add_option("--batch", options->options.batch, "Lines per batch")->check(between(1, 4096))->option_text("N");
  command->add_flag("--truncate", options->options.truncate, "Truncate sources that are longer than the model allows");
  add_generation_options(*command, options->options);
  command->callback([=] {
    options->has_text = text->count() > 0;
    options->has_ids = ids->count() > 0;
    commands.run = [=] {
      const Model model = load_model(options->model, commands.terminal);
      const Interrupt interrupt;
      return TranslationRun(model, *options, commands.terminal).run();
    };
  });
}

}  // namespace kvik::cli
