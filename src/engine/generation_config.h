#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analysis/signature.h"
#include "kvik/options.h"

namespace kvik::engine {

// Generation options from a model's own files: generation_config.json, then config.json (older exports keep them there), then
// genai_config.json. Options that none of them sets keep their defaults.
struct GenerationConfig {
  Sampling sampling;         // greedy unless the files ask for sampling
  std::vector<TokenId> eos;  // end tokens
  std::optional<int> max_new_tokens;
  std::optional<int> max_length;  // prompt included
  int beams = 1;
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::kFalse;
  int num_return_sequences = 1;
  std::optional<TokenId> decoder_start;
  std::vector<std::pair<int, std::optional<TokenId>>> forced_decoder_ids;  // position, token; nullopt: the language, to be detected

  // Speech models: the decoder's control tokens by name, and which of them the files select.
  std::vector<std::pair<std::string, TokenId>> languages, tasks;
  std::optional<std::string> language, task;
  std::optional<TokenId> no_timestamps;            // the timestamp tokens follow this id
  std::optional<int> max_initial_timestamp_index;  // limit for the first timestamp of a window
  bool speech_tokens_only_if_asked = false;        // the tokenizer has these tokens, but generation_config.json does not use them

  bool has_own_file = false;  // generation_config.json exists
};

// Throws Error(kBadModel) for a value of the wrong type, naming file and key.
GenerationConfig read_generation_config(const analysis::Signature& signature);

}  // namespace kvik::engine
