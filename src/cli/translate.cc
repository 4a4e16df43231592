#include "engine/translate.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <iostream>
#include <numeric>
#include <unistd.h>

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
  std::string source_language, language;
  int batch = 16;
  bool truncate = false;
};

struct Line {
  std::vector<TokenId> source;
  Tensor features;  // instead of tokens, where the encoder does not read text
  engine::Hypotheses found;
  bool done = false;

  size_t length() const { return features.defined() ? static_cast<size_t>(features.size()) : source.size(); }
};

// Lines of like length are batched among so many batches: enough to pad little, few enough that a long input is answered on its way.
constexpr size_t kBatchesSorted = 16;

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t\r\n") == std::string::npos; }

TargetOptions with_language(const Model& model, const TranslateCommand& options) {
  TargetOptions target = options.target;
  if (options.language.empty()) return target;
  const auto& tokenizer = ModelAccess::state(model).tokenizer;
  const std::optional<TokenId> id = tokenizer != nullptr ? tokenizer->language_id(options.language) : std::nullopt;
  if (!id)
    throw Error(Code::kBadArgument, fmt::format("the model's tokenizer has no token for the language '{}'; write it as its files do "
                                                "(fr, fra_Latn …)",
                                                options.language));
  target.forced_bos = *id;
  return target;
}

class Translator {
 public:
  Translator(const Model& model, const TranslateCommand& options, const Terminal& terminal)
      : model_(model),
        options_(options),
        target_options_(with_language(model, options)),
        terminal_(terminal),
        state_(ModelAccess::state(model)),
        target_(make_target(model, target_options_, terminal.log())),
        sampler_(target_.sampling, static_cast<size_t>(model.vocab_size())) {
    if (!state_.backend->traits().needs_source)
      throw Error(Code::kBadArgument, "this model does not translate: it has no encoder; use 'kvik run'");
    if (target_.translate.search.start.empty())
      throw Error(Code::kBadModel,
                  "the config files do not say what the decoder starts with (decoder_start_token_id); set "
                  "--decoder-start-token-id");
    target_.translate.cancelled = [] { return Interrupt::happened(); };
  }

  int run() {
    const auto start = std::chrono::steady_clock::now();
    Progress progress(terminal_, "translating");
    while (const size_t n_read = read_sources()) translate_from(lines_.size() - n_read, progress);
    progress.clear();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (terminal_.json) {
      print_json(ms);
    } else if (!terminal_.quiet) {
      say_timing(ms);
    }
    return 0;
  }

 private:
  // What the encoder reads where that is no text; null for token ids.
  const analysis::Port* feature_port() const {
    const analysis::File* encoder = state_.signature.encoder();
    if (encoder == nullptr) return nullptr;
    const analysis::Port* audio = encoder->input_of(analysis::Role::kAudioFeatures);
    return audio != nullptr ? audio : encoder->input_of(analysis::Role::kPixelValues);
  }

  // Reads the next lines, at most as many as are sorted together, and says how many there were.
  size_t read_sources() {
    const bool from_input = options_.features.empty() && !options_.has_ids && (!options_.has_text || options_.text == "-");
    if (!from_input && !lines_.empty()) return 0;
    const size_t before = lines_.size();
    check_kind();
    if (!options_.features.empty()) {
      for (Tensor& features : read_features(options_.features, feature_port()->dims.size()))
        lines_.push_back({{}, std::move(features), {}, false});
    } else if (options_.has_ids) {
      add_tokens(parse_ids(options_.ids));
    } else if (!from_input) {
      add_text(options_.text);
    } else {
      const size_t most = isatty(STDIN_FILENO) != 0 ? 1 : kBatchesSorted * static_cast<size_t>(options_.batch);
      for (std::string line; lines_.size() - before < most && std::getline(std::cin, line);) add_text(std::move(line));
    }
    return lines_.size() - before;
  }

  void check_kind() const {
    const analysis::Port* port = feature_port();
    if (!options_.features.empty() && port == nullptr)
      throw Error(Code::kBadArgument, "the encoder of this model reads token ids, not features; give a text or --ids");
    if (options_.features.empty() && port != nullptr)
      throw Error(Code::kBadArgument, fmt::format("the encoder of this model reads '{}', not text; use 'kvik transcribe' for sound, or "
                                                  "--features FILE.npy",
                                                  port->name));
  }

  void add_text(std::string line) {
    if (line.ends_with('\r')) line.pop_back();
    if (is_blank(line)) return lines_.push_back({{}, {}, {}, true});  // an empty line gives an empty line
    add_tokens(tokenize(line));
  }

  void add_tokens(std::vector<TokenId> tokens) {
    fit(tokens, lines_.size() + 1);
    lines_.push_back({std::move(tokens), {}, {}, false});
  }

  std::vector<TokenId> tokenize(const std::string& line) const {
    if (state_.tokenizer == nullptr || options_.source_language.empty()) return model_.tokenize(line);
    return state_.tokenizer->encode(line, {.language = options_.source_language});
  }

  void fit(std::vector<TokenId>& source, size_t number) const {
    const int limit = state_.backend->traits().max_source_positions;
    if (limit <= 0 || static_cast<int>(source.size()) <= limit) return;
    if (!options_.truncate)
      throw Error(Code::kTooLarge,
                  fmt::format("line {} has {} tokens; the model has positions for {}; --truncate cuts it", number, source.size(), limit));
    const TokenId end = source.back();
    terminal_.log().warning(fmt::format("line {} had {} tokens and was cut to {}", number, source.size(), limit));
    source.resize(static_cast<size_t>(limit));
    source.back() = end;  // the end of the sentence stays its end
  }

  // Lines of like length share a batch, so that little is padded; they are printed in the order they came.
  void translate_from(size_t first, Progress& progress) {
    std::vector<size_t> order(lines_.size() - first);
    std::iota(order.begin(), order.end(), first);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lines_[a].length() < lines_[b].length(); });
    const auto batch = static_cast<size_t>(options_.batch);
    for (size_t from = 0; from < order.size(); from += batch) {
      translate_batch(std::span(order).subspan(from, std::min(batch, order.size() - from)));
      progress.show(static_cast<int>(first + std::min(from + batch, order.size())), static_cast<int>(lines_.size()));
      if (!terminal_.json) print_ready();
    }
  }

  void translate_batch(std::span<const size_t> members) {
    std::vector<std::vector<TokenId>> sources;
    std::vector<Tensor> features;
    std::vector<size_t> places;
    for (const size_t i : members) {
      if (lines_[i].done) continue;
      if (lines_[i].features.defined()) {
        features.push_back(lines_[i].features);
      } else {
        sources.push_back(lines_[i].source);
      }
      places.push_back(i);
    }
    if (places.empty()) return;
    backend::Backend& backend = *state_.backend;
    std::vector<engine::EncodedSource> encoded =
        features.empty() ? engine::encode_tokens(backend, sources) : engine::encode_features(backend, features);
    for (size_t i = 0; i < places.size(); ++i) encoded[i].stream = places[i];
    std::vector<engine::Hypotheses> found = engine::translate(backend, encoded, sampler_, target_.translate);
    for (size_t i = 0; i < places.size(); ++i) {
      lines_[places[i]].found = std::move(found[i]);
      lines_[places[i]].done = true;
    }
  }

  void print_ready() {
    for (; n_printed_ < lines_.size() && lines_[n_printed_].done; ++n_printed_) {
      const Line& line = lines_[n_printed_];
      std::cout << (line.found.empty() ? std::string() : text_of(model_, line.found.front(), target_options_)) << "\n";
    }
    std::cout << std::flush;
  }

  size_t n_target_tokens() const {
    size_t n_tokens = 0;
    for (const Line& line : lines_) n_tokens += line.found.empty() ? 0 : line.found.front().ids.size();
    return n_tokens;
  }

  void say_timing(double ms) const {
    fmt::print(stderr, "kvik: {} on {}: {} in {:.0f} ms ({:.1f}/s), {} new tokens ({:.1f}/s)\n", model_.backend(), model_.device(),
               lines_.size() == 1 ? "1 line" : fmt::format("{} lines", lines_.size()), ms, static_cast<double>(lines_.size()) / (ms / 1e3),
               n_target_tokens(), static_cast<double>(n_target_tokens()) / (ms / 1e3));
  }

  void print_json(double ms) const {
    Json results = Json::array();
    for (const Line& line : lines_) {
      Json entry = {{"source_ids", line.source}, {"ids", Json::array()}, {"text", ""}, {"score", 0.0}, {"finish", "stop"}};
      for (size_t i = 0; i < line.found.size(); ++i) {
        const Json one = to_json(model_, line.found[i], target_, target_options_);
        if (i == 0) entry.update(one);
        if (line.found.size() > 1) entry["hypotheses"].push_back(one);
      }
      results.push_back(std::move(entry));
    }
    const double seconds = ms / 1e3;
    const backend::SourceWork work = state_.backend->source_work();
    const Json timing = {{"load_ms", model_.load_ms()},
                         {"translate_ms", ms},
                         {"sentences_per_s", static_cast<double>(lines_.size()) / seconds},
                         {"tokens_per_s", static_cast<double>(n_target_tokens()) / seconds},
                         {"sources_encoded", work.encoded},
                         {"sources_projected", work.cross_projected}};
    std::cout << Json{{"results", results}, {"backend", model_.backend()}, {"timing", timing}}.dump(-1, ' ', false,
                                                                                                    Json::error_handler_t::replace)
              << "\n";
  }

  const Model& model_;
  const TranslateCommand& options_;
  const TargetOptions target_options_;
  const Terminal& terminal_;
  const ModelAccess::State& state_;
  Target target_;
  sample::Sampler sampler_;
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
  command->add_option("--features", options->features, "For encoders of sound or pixels: an array of features, batch axis or not")
      ->option_text("FILE.npy");
  command->add_option("--language", options->language, "The language to translate into, where the model has several")->option_text("NAME");
  command->add_option("--source-language", options->source_language, "The language of the text")->option_text("NAME");
  command->add_option("--batch", options->batch, "Lines that are translated together")->check(CLI::Range(1, 4096))->option_text("N");
  command->add_flag("--truncate", options->truncate, "Cut sources that are longer than the model's positions");
  add_target_options(*command, options->target);
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
