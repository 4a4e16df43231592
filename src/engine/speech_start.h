#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/generation_config.h"
#include "engine/strategy.h"

// What the decoder of a speech model is told before it begins.
namespace kvik::engine {

// What the caller requests; not set: as in the config, and the language is detected if that has none.
struct SpeechRequest {
  std::optional<std::string> language;  // "de", or as the config writes it ("<|de|>")
  std::optional<std::string> task;      // "transcribe", "translate"
  bool timestamps = false;              // the decoder says times
};

// The tokens of languages to choose from; none if a language is requested or the model does not name any.
std::vector<TokenId> languages_to_detect(const GenerationConfig& config, const SpeechRequest& request);

// The start tokens: start of text, language, task, no timestamps, as far as the config has them. `detected`: one of languages_to_detect().
// Throws Error(kBadArgument) for a language, task or timestamps that the config does not list, Error(kBadModel) if the start token is
// missing.
std::vector<TokenId> speech_start(const GenerationConfig& config, const SpeechRequest& request,
                                  std::optional<TokenId> detected = std::nullopt);

// The time tokens of a model. Throws Error(kBadArgument) if it has none.
bool has_timestamps(const GenerationConfig& config);
sample::TimestampRules timestamp_rules(const GenerationConfig& config);

// The name of the language among start tokens, as --language takes it; empty if there is none.
std::string language_of(const GenerationConfig& config, std::span<const TokenId> start);

// Chooses the likeliest of some tokens, and ends.
class LanguageStrategy final : public Strategy {
 public:
  explicit LanguageStrategy(std::vector<TokenId> candidates) : candidates_(std::move(candidates)) {}

  std::span<const sample::Continuation> advance(std::span<const Sequence> branches, Workers& workers) override;
  std::optional<TokenId> chosen() const { return chosen_; }

 private:
  std::vector<TokenId> candidates_;
  std::optional<TokenId> chosen_;
};

}  // namespace kvik::engine
