#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "audio/features.h"
#include "audio/wav.h"
#include "engine/generation_config.h"
#include "engine/translate.h"

// From sound to text: what the decoder of a speech model begins with, and sounds of any length window by window.
namespace kvik::engine {

// What the caller wants of what the config offers; nothing: what the config says, and the language is detected where it says none.
struct SpeechWish {
  std::optional<std::string> language;  // "de", or as the config writes it ("<|de|>")
  std::optional<std::string> task;      // "transcribe", "translate"
};

// The start tokens: start of text, language, task, no timestamps, as far as the config knows them. `detect` is called where the language
// has to be heard, with the tokens to choose from, after the start tokens so far.
// Throws Error(kBadArgument) for a language or task that the config does not list, Error(kBadModel) where there is no start token.
using DetectLanguage = std::function<TokenId(std::span<const TokenId> start, std::span<const TokenId> languages)>;
std::vector<TokenId> speech_start(const GenerationConfig& config, const SpeechWish& wish, const DetectLanguage& detect);

// The likeliest of `candidates` after `start`.
TokenId likeliest_of(backend::Backend& backend, const EncodedSource& source, std::span<const TokenId> start,
                     std::span<const TokenId> candidates);

// The name of a language token, as --language takes it; empty where the token is none.
std::string language_of(const GenerationConfig& config, std::span<const TokenId> start);

// One window of a sound and what was heard in it.
struct HeardWindow {
  double start_s = 0;
  double end_s = 0;
  Hypotheses found;
};

struct TranscribeOptions {
  TranslateOptions translate;  // search.start is set here; max_length is max_new_tokens more, bounded by the model's positions
  int max_new_tokens = 0;
  SpeechWish wish;
  int batch = 4;                                                    // windows that are run together
  std::function<void(const HeardWindow& window, int total)> heard;  // each window in order, as soon as it is known
};

struct Transcript {
  std::vector<TokenId> start;
  std::vector<HeardWindow> windows;
};

// Windows follow each other without overlap; the last one is filled up with silence. The language is detected in the first one.
Transcript transcribe(backend::Backend& backend, const audio::Sound& sound, const audio::FeatureExtractor& extractor,
                      const GenerationConfig& config, const sample::Sampler& sampler, const TranscribeOptions& options);
// The same from features that were made elsewhere, one tensor a window; their times are 0.
Transcript transcribe(backend::Backend& backend, std::span<const Tensor> windows, const GenerationConfig& config,
                      const sample::Sampler& sampler, const TranscribeOptions& options);

}  // namespace kvik::engine
