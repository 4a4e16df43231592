#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/steps/added_tokens.h"
#include "text/tokenizer.h"

namespace kvik::text {

// The config files of a tokenizer: tokenizer_config.json, special_tokens_map.json, added_tokens.json, config.json.
struct TokenizerConfig {
  enum Role { kBos, kEos, kUnknown, kSeparator, kPad, kClassifier, kMask, kRoles };
  std::array<std::optional<AddedToken>, kRoles> roles;
  std::vector<AddedToken> additional;                        // special tokens without a role
  std::vector<AddedToken> added;                             // added_tokens_decoder, in the order of the ids
  std::vector<std::pair<std::string, int64_t>> decoder_ids;  // of `added`
  std::vector<std::pair<std::string, int64_t>> by_id;        // added_tokens.json
  std::optional<bool> add_bos, add_eos, add_prefix_space, lowercase, strip_accents, space_chinese, separate_vocabularies;
  std::string source_language, target_language;
  bool is_encoder_decoder = false;
  std::optional<int64_t> model_bos;  // bos_token_id of config.json
  bool exists = false;               // tokenizer_config.json exists

  // The tokens with a role and the additional ones, without duplicates, in the order of the roles.
  std::vector<AddedToken> special_tokens() const;
};

// Missing files are ignored. Throws Error with the name of an invalid file.
TokenizerConfig read_config(const std::filesystem::path& folder);

// Adds the tokens of the config to `added`, as the reference does after tokenizer.json.
void apply_config(const TokenizerConfig& config, AddedTokens& added, const Model& model);

SpecialIds special_ids(const TokenizerConfig& config, const TokenizerCore& core);

}  // namespace kvik::text
