#include "engine/translate.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>
#include <numeric>

#include "api/state.h"
#include "base/json.h"
#include "cli/model_options.h"
#include "cli/progress.h"

namespace kvik::cli {
namespace {

struct TranslateCommand {
  ModelOptions model;
  std::string text;
  std::string ids;
  bool has_text = false, has_ids = false;
  std::optional<int> max_tokens, beams, returned;
  std::optional<double> length_penalty;
  std::optional<int> no_repeat_ngram_size;
  std::optional<sample::EarlyStopping> early_stopping;
  int batch = 16;
  bool truncate = false;
};

struct Line {
  std::vector<TokenId> source;
  engine::Hypotheses found;
  bool done = false;
};

std::vector<std::string> input_lines(const TranslateCommand& options) {
  if (options.has_text && options.text != "-") return {options.text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);) lines.push_back(std::move(line));
  return lines;
}

class Translator {
 public:
  Translator(const Model& model, const TranslateCommand& options, const Terminal& terminal)
      : model_(model),
        options_(options),
        terminal_(terminal),
        state_(ModelAccess::state(model)),
        sampler_(sampling(), static_cast<size_t>(model.vocab_size())) {
    if (!state_.backend->traits().needs_source)
      throw Error(Code::kBadArgument, "this model does not translate: it has no encoder; use 'kvik run'");
    if (!state_.config.decoder_start)
      throw Error(Code::kBadModel, "the config files do not say what the decoder starts with (decoder_start_token_id)");
    search_.start = {*state_.config.decoder_start};
    const int limit = state_.backend->traits().max_positions;
    int n_new =
        options.max_tokens ? *options.max_tokens : state_.config.max_new_tokens.value_or(state_.config.max_length.value_or(256) - 1);
    if (limit > 1) n_new = std::min(n_new, limit - 1);
    search_.beams = {.num_beams = options.beams.value_or(state_.config.beams),
                     .num_return_sequences = options.returned.value_or(1),
                     .length_penalty = options.length_penalty.value_or(state_.config.length_penalty),
                     .early_stopping = options.early_stopping.value_or(state_.config.early_stopping),
                     .max_length = search_.start.size() + static_cast<size_t>(n_new),
                     .eos_token_id = sampler_.options().eos_token_id};
    search_.cancelled = [] { return Interrupt::happened(); };
  }

  int run() {
    const auto start = std::chrono::steady_clock::now();
    read_sources();
    // Lines of like length share a batch, so that little is padded; they are printed in the order they came.
    std::vector<size_t> order(lines_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lines_[a].source.size() < lines_[b].source.size(); });
    Progress progress(terminal_, "translating");
    const auto batch = static_cast<size_t>(options_.batch);
    for (size_t from = 0; from < order.size(); from += batch) {
      translate_batch(std::span(order).subspan(from, std::min(batch, order.size() - from)));
      progress.show(static_cast<int>(std::min(from + batch, order.size())), static_cast<int>(order.size()));
      if (!terminal_.json) print_ready();
    }
    progress.clear();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (terminal_.json) print_json(ms);
    return 0;
  }

 private:
  sample::SamplingOptions sampling() const {
    sample::SamplingOptions options = state_.config.sampling;
    if (options_.no_repeat_ngram_size) options.no_repeat_ngram_size = *options_.no_repeat_ngram_size;
    return options;
  }

  void read_sources() {
    if (options_.has_ids) {
      lines_.push_back({parse_ids(options_.ids), {}, false});
    } else {
      for (const std::string& line : input_lines(options_))
        lines_.push_back({line.empty() ? std::vector<TokenId>() : model_.tokenize(line), {}, line.empty()});
    }
    const int limit = state_.backend->traits().max_source_positions;
    for (size_t i = 0; i < lines_.size(); ++i) {
      std::vector<TokenId>& source = lines_[i].source;
      if (limit <= 0 || static_cast<int>(source.size()) <= limit) continue;
      if (!options_.truncate)
        throw Error(Code::kTooLarge,
                    fmt::format("line {} has {} tokens; the model has positions for {}; --truncate cuts it", i + 1, source.size(), limit));
      const TokenId end = source.back();
      source.resize(static_cast<size_t>(limit));
      source.back() = end;  // the end of the sentence stays its end
      terminal_.log().warning(fmt::format("line {} was cut to {} tokens", i + 1, limit));
    }
  }

  void translate_batch(std::span<const size_t> members) {
    std::vector<std::vector<TokenId>> sources;
    std::vector<size_t> places;
    for (const size_t i : members) {
      if (lines_[i].done) continue;  // an empty line stays empty
      sources.push_back(lines_[i].source);
      places.push_back(i);
    }
    if (sources.empty()) return;
    std::vector<engine::Hypotheses> found = engine::translate(*state_.backend, sources, sampler_, search_);
    for (size_t i = 0; i < places.size(); ++i) {
      lines_[places[i]].found = std::move(found[i]);
      lines_[places[i]].done = true;
    }
  }

  std::string text_of(const sample::Hypothesis& hypothesis) const {
    if (model_.has_tokenizer()) return model_.detokenize(hypothesis.ids);
    return fmt::format("{}", fmt::join(hypothesis.ids, ","));
  }

  void print_ready() {
    for (; n_printed_ < lines_.size() && lines_[n_printed_].done; ++n_printed_) {
      const Line& line = lines_[n_printed_];
      std::cout << (line.found.empty() ? std::string() : text_of(line.found.front())) << "\n";
    }
    std::cout << std::flush;
  }

  bool ends(const sample::Hypothesis& hypothesis) const {
    const std::vector<TokenId>& eos = search_.beams.eos_token_id;
    return !hypothesis.ids.empty() && std::find(eos.begin(), eos.end(), hypothesis.ids.back()) != eos.end();
  }

  void print_json(double ms) const {
    Json results = Json::array();
    size_t n_tokens = 0;
    for (const Line& line : lines_) {
      Json entry = {{"source_ids", line.source}, {"ids", Json::array()}, {"text", ""}, {"score", 0.0}, {"finish", "stop"}};
      for (size_t i = 0; i < line.found.size(); ++i) {
        const sample::Hypothesis& best = line.found[i];
        const Json one = {{"ids", best.ids},
                          {"text", model_.has_tokenizer() ? text_of(best) : ""},
                          {"score", best.score},
                          {"finish", ends(best) ? "stop" : "length"}};
        if (i == 0) entry.update(one);
        if (line.found.size() > 1) entry["hypotheses"].push_back(one);
        n_tokens += i == 0 ? best.ids.size() : 0;
      }
      results.push_back(std::move(entry));
    }
    const double seconds = ms / 1e3;
    const Json timing = {{"load_ms", model_.load_ms()},
                         {"translate_ms", ms},
                         {"sentences_per_s", static_cast<double>(lines_.size()) / seconds},
                         {"tokens_per_s", static_cast<double>(n_tokens) / seconds}};
    std::cout << Json{{"results", results}, {"backend", model_.backend()}, {"timing", timing}}.dump(-1, ' ', false,
                                                                                                    Json::error_handler_t::replace)
              << "\n";
  }

  const Model& model_;
  const TranslateCommand& options_;
  const Terminal& terminal_;
  decltype(ModelAccess::state(std::declval<const Model&>())) state_;
  sample::Sampler sampler_;
  engine::TranslateOptions search_;
  std::vector<Line> lines_;
  size_t n_printed_ = 0;
};

}  // namespace

void add_translate(Commands commands) {
  CLI::App* command = commands.app.add_subcommand("translate", "Translate a text, or the lines of standard input, in order");
  auto options = std::make_shared<TranslateCommand>();
  add_model_options(*command, options->model, commands.terminal);
  CLI::Option* text =
      command->add_option("TEXT", options->text, "The text; - or nothing reads standard input, a line at a time")->option_text(" ");
  CLI::Option* ids = command->add_option("--ids", options->ids, "Source token ids instead of text: 1,2,3")->option_text("IDS");
  command->add_option("-n,--max-tokens", options->max_tokens, "New tokens at most")->check(CLI::PositiveNumber)->option_text("N");
  command->add_option("--beams", options->beams, "Width of the search; 1: greedy")
      ->check(CLI::Range(1, sample::kMostBeams))
      ->option_text("N");
  command->add_option("--num-return-sequences", options->returned, "Hypotheses to show of each line (--json)")
      ->check(CLI::PositiveNumber)
      ->option_text("N");
  command->add_option("--length-penalty", options->length_penalty, "Above 0 favours long translations")->option_text("X");
  command->add_option("--early-stopping", options->early_stopping, "When a search with enough hypotheses ends: false, true or never")
      ->transform(CLI::CheckedTransformer(std::map<std::string, sample::EarlyStopping>{{"false", sample::EarlyStopping::kNo},
                                                                                       {"true", sample::EarlyStopping::kYes},
                                                                                       {"never", sample::EarlyStopping::kNever}},
                                          CLI::ignore_case)
                      .description(""))
      ->option_text("false|true|never");
  command->add_option("--no-repeat-ngram-size", options->no_repeat_ngram_size, "No N tokens in a row occur twice")->option_text("N");
  command->add_option("--batch", options->batch, "Lines that are translated together (16)")->check(CLI::Range(1, 1024))->option_text("N");
  command->add_flag("--truncate", options->truncate, "Cut lines that are longer than the model's positions");
  command->callback([=] {
    options->has_text = text->count() > 0;
    options->has_ids = ids->count() > 0;
    commands.run = [=] {
      const Interrupt interrupt;
      const Model model = load_model(options->model, commands.terminal);
      return Translator(model, *options, commands.terminal).run();
    };
  });
}

}  // namespace kvik::cli
