#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "audio/features.h"
#include "audio/wav.h"
#include "engine/generation_config.h"
#include "engine/targets.h"
#include "engine/timed_text.h"

// Speech models: the start tokens of their decoder, and recordings of any length, window by window.
namespace kvik::engine {

// What the caller requests; not set: as in the config, and the language is detected if that has none.
struct SpeechRequest {
  std::optional<std::string> language;  // "de", or as the config writes it ("<|de|>")
  std::optional<std::string> task;      // "transcribe", "translate"
  bool timestamps = false;              // the decoder says times
};

// The start tokens: start of text, language, task, no timestamps, as far as the config has them. `detect` is called if the language
// has to be detected, with the tokens to choose from, after the start tokens so far.
// Throws Error(kBadArgument) for a language, task or timestamps that the config does not have, Error(kBadModel) if there is no start token.
using DetectLanguage = std::function<TokenId(std::span<const TokenId> start, std::span<const TokenId> languages)>;
std::vector<TokenId> speech_start(const GenerationConfig& config, const SpeechRequest& request, const DetectLanguage& detect);

// The time tokens of a model. Throws Error(kBadArgument) if it has none.
sample::TimestampRules timestamp_rules(const GenerationConfig& config);

// The likeliest of `candidates` after `start`.
TokenId likeliest_of(const std::shared_ptr<Decoder>& decoder, const EncodedSource& source, std::span<const TokenId> start,
                     std::span<const TokenId> candidates);

// The name of the language among start tokens, as --language takes it; empty if there is none.
std::string language_of(const GenerationConfig& config, std::span<const TokenId> start);

// What a speech encoder reads, one window after another.
class AudioWindows {
 public:
  virtual ~AudioWindows() = default;
  virtual int count() const = 0;
  virtual Tensor features(int window) const = 0;
  virtual double start_s(int) const { return 0; }
  virtual double end_s(int) const { return 0; }

  // A window that begins anywhere. 0 seconds: windows cannot be moved.
  virtual double duration_s() const { return 0; }
  virtual Tensor features_from(double /*start_s*/) const { return {}; }
};

// Windows of a recording follow each other without overlap; the last one is padded with silence. Both must outlive it.
std::unique_ptr<AudioWindows> windows_of(const audio::Sound& sound, const audio::FeatureExtractor& extractor);
// Features that were computed elsewhere, one tensor per window. They must outlive it.
std::unique_ptr<AudioWindows> windows_of(std::span<const Tensor> features);

struct TranscribedWindow {
  double start_s = 0;
  double end_s = 0;
  std::vector<Target> targets;     // best first
  std::vector<TimedTokens> texts;  // of the best one, if times were asked for; from the beginning of the recording
};

struct TranscribeOptions {
  TargetOptions target;  // start and max_length are set here
  int max_new_tokens = 0;
  SpeechRequest request;
  std::optional<sample::TimestampRules> timestamps;  // set: windows follow each other at the times that the decoder says
  double window_s = 0;                               // with timestamps: of what the encoder reads
  int batch = 4;                                     // windows per run
  std::function<void(const TranscribedWindow& window, int total)> on_window;  // in order, as early as possible
  std::function<bool()> cancelled;                                            // polled between steps
};

struct Transcript {
  std::vector<TokenId> start;
  std::vector<TranscribedWindow> windows;
  bool cancelled = false;  // `windows` are those before
};

// The language is detected in the first window.
Transcript transcribe(const std::shared_ptr<Decoder>& decoder, const AudioWindows& windows, const GenerationConfig& config,
                      const std::shared_ptr<const sample::Sampler>& sampler, const TranscribeOptions& options);

}  // namespace kvik::engine
