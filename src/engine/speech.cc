#include "engine/speech.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvik/error.h"

namespace kvik::engine {
namespace {

using NamedTokens = std::vector<std::pair<std::string, TokenId>>;

std::string bare(std::string name) {
  if (name.starts_with("<|") && name.ends_with("|>")) name = name.substr(2, name.size() - 4);
  return name;
}

std::string names_of(const NamedTokens& tokens) {
  std::vector<std::string> names;
  for (const auto& [name, id] : tokens) names.push_back(bare(name));
  return fmt::format("{}", fmt::join(names, ", "));
}

TokenId named(const NamedTokens& tokens, const std::string& wanted, const char* what) {
  for (const auto& [name, id] : tokens) {
    if (name == wanted || bare(name) == bare(wanted)) return id;
  }
  if (tokens.empty())
    throw Error(Code::kBadArgument,
                fmt::format("the {} '{}' was asked for; this model's generation_config.json lists none, nor does its tokenizer, so it "
                            "knows one only",
                            what, wanted));
  throw Error(Code::kBadArgument, fmt::format("the {} '{}' is unknown; this model has: {}", what, wanted, names_of(tokens)));
}

bool holds_any(const std::vector<std::optional<TokenId>>& start, const NamedTokens& tokens) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const auto& entry) { return std::find(start.begin(), start.end(), std::optional(entry.second)) != start.end(); });
}

// The tokens that are forced at places 1, 2, … one after another; nothing where a place is left open.
void add_forced(const GenerationConfig& config, std::vector<std::optional<TokenId>>& start) {
  for (const auto& [place, token] : config.forced_decoder_ids) {
    if (place != static_cast<int>(start.size()))
      throw Error(Code::kBadModel,
                  fmt::format("forced_decoder_ids has an entry for place {}; one for place {} was expected", place, start.size()));
    start.push_back(token);
  }
}

std::vector<TokenId> given(const std::vector<std::optional<TokenId>>& start) {
  std::vector<TokenId> tokens;
  for (const std::optional<TokenId>& token : start) {
    if (token) tokens.push_back(*token);
  }
  return tokens;
}

}  // namespace

std::vector<TokenId> speech_start(const GenerationConfig& config, const SpeechWish& wish, const DetectLanguage& detect) {
  if (!config.decoder_start)
    throw Error(Code::kBadModel, "the config files do not say what the decoder starts with (decoder_start_token_id)");
  const std::optional<std::string> language = wish.language ? wish.language : config.language;
  const std::optional<std::string> task = wish.task ? wish.task : config.task;
  std::vector<std::optional<TokenId>> start = {*config.decoder_start};
  if (!language && !task) add_forced(config, start);
  if (!language && !task && config.speech_tokens_only_if_asked) return given(start);

  std::optional<TokenId> spoken;
  const bool is_open = start.size() < 2 || !start[1];
  if (language) {
    spoken = named(config.languages, *language, "language");
  } else if (is_open && !config.languages.empty()) {
    std::vector<TokenId> candidates;
    for (const auto& [name, id] : config.languages) candidates.push_back(id);
    spoken = detect({&*config.decoder_start, 1}, candidates);
  }
  if (spoken && start.size() > 1) start[1] = spoken;
  if (spoken && start.size() == 1) start.push_back(spoken);

  if (task) {
    start.push_back(named(config.tasks, *task, "task"));
  } else if (language && !config.tasks.empty() && !holds_any(start, config.tasks)) {
    start.push_back(named(config.tasks, "transcribe", "task"));
  }
  if (config.no_timestamps && start.back() != config.no_timestamps) start.push_back(config.no_timestamps);
  return given(start);
}

TokenId likeliest_of(backend::Backend& backend, const EncodedSource& source, std::span<const TokenId> start,
                     std::span<const TokenId> candidates) {
  const std::unique_ptr<backend::Cache> cache = backend.new_cache(source.encoded);
  std::vector<backend::Row> rows;
  for (size_t i = 0; i < start.size(); ++i) rows.push_back({start[i], static_cast<int>(i), 0, i + 1 == start.size()});
  backend::Cache* const caches[] = {cache.get()};
  backend::Logits logits;
  backend.run(rows, caches, logits);
  const std::span<const float> row = logits.row(0);
  TokenId best = candidates.front();
  for (const TokenId id : candidates) {
    if (id < 0 || static_cast<size_t>(id) >= row.size())
      throw Error(Code::kBadModel, fmt::format("lang_to_id names token {}, and the vocabulary has {}", id, row.size()));
    if (row[static_cast<size_t>(id)] > row[static_cast<size_t>(best)]) best = id;
  }
  return best;
}

std::string language_of(const GenerationConfig& config, std::span<const TokenId> start) {
  for (const auto& [name, id] : config.languages) {
    if (std::find(start.begin(), start.end(), id) != start.end()) return bare(name);
  }
  return "";
}

namespace {

// What both ways share: windows one batch after another.
class Listening {
 public:
  Listening(backend::Backend& backend, const GenerationConfig& config, const sample::Sampler& sampler, const TranscribeOptions& options)
      : backend_(backend), config_(config), sampler_(sampler), options_(options), translating_(options.translate) {}

  std::vector<Hypotheses> hear(std::span<const Tensor> features) {
    std::vector<EncodedSource> encoded = encode_features(backend_, features);
    for (EncodedSource& source : encoded) source.stream = n_heard_++;
    if (start_.empty()) begin(encoded.front());
    return translate(backend_, encoded, sampler_, translating_);
  }

  const std::vector<TokenId>& start() const { return start_; }

 private:
  void begin(const EncodedSource& first) {
    start_ = speech_start(config_, options_.wish, [&](std::span<const TokenId> start, std::span<const TokenId> languages) {
      return likeliest_of(backend_, first, start, languages);
    });
    translating_.search.start = start_;
    size_t& most = translating_.search.beams.max_length;
    most = start_.size() + static_cast<size_t>(options_.max_new_tokens);
    if (const int limit = backend_.traits().max_positions; limit > 0) most = std::min(most, static_cast<size_t>(limit));
  }

  backend::Backend& backend_;
  const GenerationConfig& config_;
  const sample::Sampler& sampler_;
  const TranscribeOptions& options_;
  TranslateOptions translating_;
  std::vector<TokenId> start_;
  uint64_t n_heard_ = 0;
};

}  // namespace

Transcript transcribe(backend::Backend& backend, const audio::Sound& sound, const audio::FeatureExtractor& extractor,
                      const GenerationConfig& config, const sample::Sampler& sampler, const TranscribeOptions& options) {
  const auto window = static_cast<int64_t>(extractor.window_samples());
  const int64_t n_windows = (sound.n_samples() + window - 1) / window;
  Listening listening(backend, config, sampler, options);
  Transcript transcript;
  std::vector<float> samples;
  for (int64_t first = 0; first < n_windows; first += options.batch) {
    std::vector<Tensor> features;
    for (int64_t w = first; w < std::min(n_windows, first + options.batch); ++w) {
      samples.resize(static_cast<size_t>(std::min(window, sound.n_samples() - w * window)));
      sound.read(w * window, samples);
      features.push_back(extractor.extract(samples));
    }
    for (Hypotheses& found : listening.hear(features)) {
      const int64_t begin = static_cast<int64_t>(transcript.windows.size()) * window;
      const int64_t end = std::min(begin + window, sound.n_samples());
      transcript.windows.push_back({static_cast<double>(begin) / sound.rate(), static_cast<double>(end) / sound.rate(), std::move(found)});
      if (options.heard) options.heard(transcript.windows.back(), static_cast<int>(n_windows));
    }
  }
  transcript.start = listening.start();
  return transcript;
}

Transcript transcribe(backend::Backend& backend, std::span<const Tensor> windows, const GenerationConfig& config,
                      const sample::Sampler& sampler, const TranscribeOptions& options) {
  Listening listening(backend, config, sampler, options);
  Transcript transcript;
  const auto batch = static_cast<size_t>(options.batch);
  for (size_t first = 0; first < windows.size(); first += batch) {
    for (Hypotheses& found : listening.hear(windows.subspan(first, std::min(batch, windows.size() - first)))) {
      transcript.windows.push_back({0, 0, std::move(found)});
      if (options.heard) options.heard(transcript.windows.back(), static_cast<int>(windows.size()));
    }
  }
  transcript.start = listening.start();
  return transcript;
}

}  // namespace kvik::engine
