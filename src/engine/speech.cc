#include "engine/speech.h"

#include <algorithm>
#include <cmath>
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
                fmt::format("the {} '{}' was requested; this model has only one: neither its generation_config.json nor its tokenizer "
                            "lists any",
                            what, wanted));
  throw Error(Code::kBadArgument, fmt::format("the {} '{}' is unknown; this model has: {}", what, wanted, names_of(tokens)));
}

bool holds_any(const std::vector<std::optional<TokenId>>& start, const NamedTokens& tokens) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const auto& entry) { return std::find(start.begin(), start.end(), std::optional(entry.second)) != start.end(); });
}

// The tokens that are forced at places 1, 2, … one after another; nothing if a place is left open.
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

std::vector<TokenId> speech_start(const GenerationConfig& config, const SpeechRequest& request, const DetectLanguage& detect) {
  if (!config.decoder_start)
    throw Error(Code::kBadModel, "the config files do not say what the decoder starts with (decoder_start_token_id)");
  const std::optional<std::string> language = request.language ? request.language : config.language;
  const std::optional<std::string> task = request.task ? request.task : config.task;
  std::vector<std::optional<TokenId>> start = {*config.decoder_start};
  if (!language && !task) add_forced(config, start);
  if (!language && !task && !request.timestamps && config.speech_tokens_only_if_asked) return given(start);

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
  if (request.timestamps) std::erase(start, config.no_timestamps);
  if (config.no_timestamps && !request.timestamps && start.back() != config.no_timestamps) start.push_back(config.no_timestamps);
  return given(start);
}

sample::TimestampRules timestamp_rules(const GenerationConfig& config) {
  if (!config.no_timestamps || config.eos.empty())
    throw Error(Code::kBadArgument,
                "timestamps were requested; this model has no time tokens (no_timestamps_token_id in its config files)");
  return {.first = *config.no_timestamps + 1, .end = config.eos.front(), .max_initial_index = config.max_initial_timestamp_index};
}

TokenId likeliest_of(const std::shared_ptr<Decoder>& decoder, const EncodedSource& source, std::span<const TokenId> start,
                     std::span<const TokenId> candidates) {
  Sequence sequence(decoder, 0, source.encoded);
  if (sequence.append(start) != AppendStatus::kDone) throw Error(Code::kTooLarge, "the start tokens exceed the decoder's positions");
  const std::span<const float> row = sequence.logits();
  TokenId best = candidates.front();
  for (const TokenId id : candidates) {
    if (id < 0 || static_cast<size_t>(id) >= row.size())
      throw Error(Code::kBadModel, fmt::format("lang_to_id names token {}; the vocabulary has {}", id, row.size()));
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

class SoundWindows final : public AudioWindows {
 public:
  SoundWindows(const audio::Sound& sound, const audio::FeatureExtractor& extractor)
      : sound_(sound), extractor_(extractor), n_window_(static_cast<int64_t>(extractor.window_samples())) {}

  int count() const override { return static_cast<int>((sound_.n_samples() + n_window_ - 1) / n_window_); }
  Tensor features(int window) const override {
    std::vector<float> samples(static_cast<size_t>(last_sample(window) - first_sample(window)));
    sound_.read(first_sample(window), samples);
    return extractor_.extract(samples);
  }
  double start_s(int window) const override { return static_cast<double>(first_sample(window)) / sound_.rate(); }
  double end_s(int window) const override { return static_cast<double>(last_sample(window)) / sound_.rate(); }
  double duration_s() const override { return static_cast<double>(sound_.n_samples()) / sound_.rate(); }
  Tensor features_from(double start_s) const override {
    const int64_t first = std::llround(start_s * sound_.rate());
    std::vector<float> samples(static_cast<size_t>(std::clamp<int64_t>(sound_.n_samples() - first, 0, n_window_)));
    sound_.read(first, samples);
    return extractor_.extract(samples);
  }

 private:
  int64_t first_sample(int window) const { return window * n_window_; }
  int64_t last_sample(int window) const { return std::min((window + 1) * n_window_, sound_.n_samples()); }

  const audio::Sound& sound_;
  const audio::FeatureExtractor& extractor_;
  int64_t n_window_;
};

class FeatureWindows final : public AudioWindows {
 public:
  explicit FeatureWindows(std::span<const Tensor> features) : features_(features) {}
  int count() const override { return static_cast<int>(features_.size()); }
  Tensor features(int window) const override { return features_[static_cast<size_t>(window)]; }

 private:
  std::span<const Tensor> features_;
};

size_t max_length_of(const backend::Traits& traits, size_t n_start, int max_new_tokens) {
  const size_t length = n_start + static_cast<size_t>(max_new_tokens);
  return traits.max_positions > 0 ? std::min(length, static_cast<size_t>(traits.max_positions)) : length;
}

}  // namespace

std::unique_ptr<AudioWindows> windows_of(const audio::Sound& sound, const audio::FeatureExtractor& extractor) {
  return std::make_unique<SoundWindows>(sound, extractor);
}

std::unique_ptr<AudioWindows> windows_of(std::span<const Tensor> features) { return std::make_unique<FeatureWindows>(features); }

namespace {

// Windows one after another: each begins where the decoder finished the last text of the one before.
class TimedRun {
 public:
  TimedRun(const std::shared_ptr<Decoder>& decoder, const AudioWindows& windows, const GenerationConfig& config,
           const std::shared_ptr<const sample::Sampler>& sampler, const TranscribeOptions& options)
      : decoder_(decoder), windows_(windows), config_(config), sampler_(sampler), options_(options), target_(options.target) {}

  Transcript run() {
    const bool moves = windows_.duration_s() > 0;
    const double end_s = moves ? windows_.duration_s() : windows_.count() * options_.window_s;
    double start_s = 0;
    for (int w = 0; moves ? start_s < end_s : w < windows_.count(); ++w) {
      const double length_s = std::min(options_.window_s, end_s - start_s);
      const double advance_s = run_window(moves ? windows_.features_from(start_s) : windows_.features(w), start_s, length_s);
      if (transcript_.cancelled) break;
      if (options_.on_window) options_.on_window(transcript_.windows.back(), windows_.count());
      start_s += moves ? advance_s : options_.window_s;
    }
    return std::move(transcript_);
  }

 private:
  // Where the next one begins, from the beginning of this one.
  double run_window(const Tensor& features, double start_s, double length_s) {
    transcript_.cancelled = options_.cancelled && options_.cancelled();
    if (transcript_.cancelled) return 0;
    std::vector<EncodedSource> encoded = encode_features(decoder_->backend(), {&features, 1}, &decoder_->source_cache());
    encoded.front().stream = transcript_.windows.size();
    if (transcript_.windows.empty()) start(encoded.front());
    FoundTargets found = std::move(find_targets(decoder_, sampler_, encoded, target_, options_.cancelled).front());
    transcript_.cancelled = found.finish == Finish::kCancelled;
    if (transcript_.cancelled) return 0;
    std::vector<TokenId> ids = found.targets.front().ids;
    if (!ids.empty() && std::ranges::find(config_.eos, ids.back()) != config_.eos.end()) ids.pop_back();
    const double s_per_index = options_.window_s / std::max(1, encoded.front().encoded->n_positions());
    TimedWindow timed = cut_at_times(ids, *options_.timestamps, s_per_index, length_s);
    for (TimedTokens& text : timed.texts) text.start_s += start_s, text.end_s += start_s;
    transcript_.windows.push_back({start_s, start_s + length_s, std::move(found.targets), std::move(timed.texts)});
    return timed.advance_s;
  }

  void start(const EncodedSource& first) {
    target_.start = speech_start(config_, options_.request, [&](std::span<const TokenId> so_far, std::span<const TokenId> languages) {
      return likeliest_of(decoder_, first, so_far, languages);
    });
    target_.beams.max_length = max_length_of(decoder_->backend().traits(), target_.start.size(), options_.max_new_tokens);
    transcript_.start = target_.start;
  }

  const std::shared_ptr<Decoder>& decoder_;
  const AudioWindows& windows_;
  const GenerationConfig& config_;
  const std::shared_ptr<const sample::Sampler>& sampler_;
  const TranscribeOptions& options_;
  TargetOptions target_;
  Transcript transcript_;
};

}  // namespace

Transcript transcribe(const std::shared_ptr<Decoder>& decoder, const AudioWindows& windows, const GenerationConfig& config,
                      const std::shared_ptr<const sample::Sampler>& sampler, const TranscribeOptions& options) {
  if (options.timestamps) return TimedRun(decoder, windows, config, sampler, options).run();
  Transcript transcript;
  TargetOptions target = options.target;
  for (int first = 0; first < windows.count(); first += options.batch) {
    if (options.cancelled && options.cancelled()) {
      transcript.cancelled = true;
      return transcript;
    }
    std::vector<Tensor> features;
    for (int w = first; w < std::min(windows.count(), first + options.batch); ++w) features.push_back(windows.features(w));
    std::vector<EncodedSource> encoded = encode_features(decoder->backend(), features, &decoder->source_cache());
    for (EncodedSource& source : encoded) source.stream += static_cast<uint64_t>(first);
    if (first == 0) {
      target.start = speech_start(config, options.request, [&](std::span<const TokenId> start, std::span<const TokenId> languages) {
        return likeliest_of(decoder, encoded.front(), start, languages);
      });
      target.beams.max_length = max_length_of(decoder->backend().traits(), target.start.size(), options.max_new_tokens);
      transcript.start = target.start;
    }
    for (FoundTargets& found : find_targets(decoder, sampler, encoded, target, options.cancelled)) {
      if (found.finish == Finish::kCancelled) {
        transcript.cancelled = true;
        return transcript;
      }
      const int w = static_cast<int>(transcript.windows.size());
      transcript.windows.push_back({windows.start_s(w), windows.end_s(w), std::move(found.targets), {}});
      if (options.on_window) options.on_window(transcript.windows.back(), windows.count());
    }
  }
  return transcript;
}

}  // namespace kvik::engine
