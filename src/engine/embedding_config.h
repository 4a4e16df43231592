#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/pooling.h"

namespace kvik::engine {

// How hidden states are pooled into vectors, from a model's files: modules.json and the folders it names, 1_Pooling/config.json,
// sentence_bert_config.json, config_sentence_transformers.json, tokenizer_config.json.
struct EmbeddingConfig {
  bool has_modules = false;                    // modules.json exists, so the files specify everything below
  std::vector<Pooling> pooling;                // empty: not specified
  std::vector<VectorLayer> layers;             // after pooling, in this order
  std::vector<std::string> dense;              // description of the dense layers: "768 x 256"
  std::string refused;                         // a module that cannot be computed, in one sentence; empty: none
  bool include_prompt = true;                  // false: means and maxima leave out the prompt's tokens
  std::optional<int> max_tokens;               // of a text, special tokens included
  bool cut_at_start = false;                   // truncate long texts at the start
  bool lower_case = false;                     // before tokenizing
  std::map<std::string, std::string> prompts;  // texts by name
  std::string default_prompt;                  // a name; empty: none

  bool normalizes() const;
};

// Missing files are ignored. Throws Error(kBadModel) for an invalid file.
EmbeddingConfig read_embedding_config(const std::filesystem::path& folder);

}  // namespace kvik::engine
