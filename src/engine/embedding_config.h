#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/pooling.h"

namespace kvik::engine {

// How a model's folder says that its hidden states become vectors: modules.json and the folders it names, 1_Pooling/config.json,
// sentence_bert_config.json, config_sentence_transformers.json, tokenizer_config.json.
struct EmbeddingConfig {
  bool has_modules = false;                    // the files say all of what follows
  std::vector<Pooling> pooling;                // empty: no file says
  std::vector<VectorLayer> layers;             // after pooling, in this order
  std::vector<std::string> dense;              // for people: what `layers` has, "768 x 256"
  std::string refused;                         // a module that cannot be computed, in one sentence; empty: none
  bool include_prompt = true;                  // false: means and maxima leave out the prompt's tokens
  std::optional<int> max_tokens;               // of a text, special tokens included
  bool cut_at_start = false;                   // a text that is too long loses its first tokens
  bool lower_case = false;                     // before tokenizing
  std::map<std::string, std::string> prompts;  // texts by name
  std::string default_prompt;                  // a name; empty: none

  bool normalizes() const;
};

// Files that are not there say nothing. Throws Error(kBadModel) for one that is invalid.
EmbeddingConfig read_embedding_config(const std::filesystem::path& folder);

}  // namespace kvik::engine
