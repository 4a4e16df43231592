#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/generation_config.h"
#include "engine/strategy.h"

// The start tokens of a speech decoder: language, task, timestamps.
namespace kvik::engine {

// The caller's request. What is not set is taken from the config; without a language there, it is detected.
struct SpeechRequest {
  std::optional<std::string> language;  // "de", or as the config writes it ("<|de|>")
  std::optional<std::string> task;      // "transcribe", "translate"
  bool timestamps = false;              // generate timestamp tokens
};

// The language tokens to detect one from; empty if a language is requested or the model has none.
std::vector<TokenId> languages_to_detect(const GenerationConfig& config, const SpeechRequest& request);

// The start tokens: start of text, language, task, no timestamps, as far as the config has them. `detected`: one of languages_to_detect().
// Throws Error(kBadArgument) for a language, task or timestamps that the config does not list, Error(kBadModel) if the start token is
// missing.
std::vector<TokenId> speech_start(const GenerationConfig& config, const SpeechRequest& request,
                                  std::optional<TokenId> detected = std::nullopt);

// The timestamp tokens of a model. timestamp_rules() throws Error(kBadArgument) if it has none.
bool has_timestamps(const GenerationConfig& config);
sample::TimestampRules timestamp_rules(const GenerationConfig& config);

// The name of the language among start tokens, as --language takes it; empty if there is none.
std::string language_of(const GenerationConfig& config, std::span<const TokenId> start);

// Chooses the most likely of the candidates, then ends.
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
