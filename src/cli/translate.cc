#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <unistd.h>

#include "api/translator.h"
#include "base/json.h"
#include "cli/progress.h"
#include "cli/target_options.h"

namespace kvik::cli {
namespace {

struct TranslateCommand {
  ModelOptions model;
  TargetOptions target;
  std::string text, ids, features;
  bool has_text = false, has_ids = false;
};

// Lines of like length share a batch; they are printed in the order they came.
class TranslationRun {
 public:
  TranslationRun(const Model& model, const TranslateCommand& command, const Terminal& terminal)
      : model_(model), command_(command), terminal_(terminal), progress_(terminal, "translating"), translator_(model, options()) {}

  int run() {
    const auto start = std::chrono::steady_clock::now();
    for (std::vector<api::TranslationSource> sources = read_sources(); !sources.empty(); sources = read_sources()) {
      for (Translation& result : translator_.translate(std::move(sources))) {
        if (result.finish == Finish::kCancelled) throw Error(Code::kBadArgument, "translation was interrupted");
        results_.push_back(std::move(result));
      }
    }
    progress_.clear();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (terminal_.json) {
      print_json(ms);
    } else if (!terminal_.quiet) {
      say_timing(ms);
    }
    return 0;
  }

 private:
  TranslateOptions options() {
    TranslateOptions options = command_.target.settled();
    options.cancelled = [] { return Interrupt::happened(); };
    options.progress = [this](int done, int total) {
      const int before = static_cast<int>(results_.size());
      progress_.show(before + done, before + total);
      std::cout << std::flush;
    };
    options.translated = [this](size_t, const Translation& line) {
      if (!terminal_.json) std::cout << shown(model_, line) << "\n";
    };
    return options;
  }

  // The next lines, at most as many as are sorted together; none at the end.
  std::vector<api::TranslationSource> read_sources() {
    std::vector<api::TranslationSource> sources;
    const bool is_first = results_.empty();
    if (!command_.features.empty()) {
      if (!is_first) return {};
      for (Tensor& features : read_features(command_.features, translator_.feature_rank()))
        sources.push_back(translator_.read_features(std::move(features)));
    } else if (command_.has_ids) {
      if (is_first) sources.push_back(translator_.read_ids(parse_ids(command_.ids)));
    } else if (command_.has_text && command_.text != "-") {
      if (is_first) sources.push_back(translator_.read_text(command_.text));
    } else {
      const size_t most = isatty(STDIN_FILENO) != 0 ? 1 : translator_.n_sorted_together();
      for (std::string line; sources.size() < most && std::getline(std::cin, line);) {
        if (line.ends_with('\r')) line.pop_back();
        sources.push_back(translator_.read_text(line));
      }
    }
    return sources;
  }

  size_t n_target_tokens() const {
    size_t n_tokens = 0;
    for (const Translation& line : results_) n_tokens += line.ids.size();
    return n_tokens;
  }

  void say_timing(double ms) const {
    fmt::print(stderr, "kvik: {} on {}: {} in {:.0f} ms ({:.1f}/s), {} new tokens ({:.1f}/s)\n", model_.backend(), model_.device(),
               results_.size() == 1 ? "1 line" : fmt::format("{} lines", results_.size()), ms,
               static_cast<double>(results_.size()) / (ms / 1e3), n_target_tokens(), static_cast<double>(n_target_tokens()) / (ms / 1e3));
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
    const backend::SourceWork work = ModelAccess::state(model_).backend->source_work();
    const Json timing = {{"load_ms", model_.load_ms()},
                         {"translate_ms", ms},
                         {"sentences_per_s", static_cast<double>(results_.size()) / seconds},
                         {"tokens_per_s", static_cast<double>(n_target_tokens()) / seconds},
                         {"sources_encoded", work.encoded},
                         {"sources_projected", work.cross_projected}};
    std::cout << Json{{"results", results}, {"backend", model_.backend()}, {"timing", timing}}.dump(-1, ' ', false,
                                                                                                    Json::error_handler_t::replace)
              << "\n";
  }

  const Model& model_;
  const TranslateCommand& command_;
  const Terminal& terminal_;
  Progress progress_;
  api::Translator translator_;
  std::vector<Translation> results_;
};

}  // namespace

void add_translate(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("translate", "Translate a text, or the lines of standard input, in order");
  auto options = std::make_shared<TranslateCommand>();
  add_model_options(*command, options->model, commands.terminal);
  CLI::Option* text =
      command->add_option("TEXT", options->text, "The text; - or nothing reads standard input, a line at a time")->option_text(" ");
  CLI::Option* ids = command->add_option("--ids", options->ids, "Source token ids instead of text: 1,2,3")->option_text("IDS");
  command->add_option("--features", options->features, "For encoders of sound or pixels: an array of features, batch axis or not")
      ->option_text("FILE.npy");
  command->add_option("--language", options->target.search.language, "The language to translate into, where the model has several")
      ->option_text("NAME");
  command->add_option("--source-language", options->target.search.source_language, "The language of the text")->option_text("NAME");
  command->add_option("--batch", options->target.search.batch, "Lines that are translated together")
      ->check(CLI::Range(1, 4096))
      ->option_text("N");
  command->add_flag("--truncate", options->target.search.truncate, "Cut sources that are longer than the model's positions");
  add_target_options(*command, options->target);
  command->callback([=] {
    options->has_text = text->count() > 0;
    options->has_ids = ids->count() > 0;
    commands.run = [=] {
      const Interrupt interrupt;
      const Model model = load_model(options->model, commands.terminal);
      return TranslationRun(model, *options, commands.terminal).run();
    };
  });
}

}  // namespace kvik::cli
