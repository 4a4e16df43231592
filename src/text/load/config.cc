#include "text/load/config.h"

#include <algorithm>
#include <fmt/format.h>

#include "text/load/json_file.h"
#include "text/load/tokenizer_json.h"
#include "text/tokenizer_core.h"

namespace kvik::text {
namespace {

constexpr std::array<std::string_view, TokenizerConfig::kRoles> kRoleNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                                              "pad_token", "cls_token", "mask_token"};

// A token is a string or an object with properties.
std::optional<AddedToken> special_token_of(const json::Element& value) {
  AddedToken token;
  std::string_view text;
  if (value.get_string().get(text) == simdjson::SUCCESS) {
    token.content = std::string(text);
    token.normalized = false;
  } else if (json::Object object; value.get_object().get(object) == simdjson::SUCCESS) {
    token = read_added_token(object);
  } else {
    return std::nullopt;
  }
  token.special = true;
  return token;
}

void read_special(const json::Object& root, TokenizerConfig& config) {
  for (size_t role = 0; role < kRoleNames.size(); ++role) {
    if (const auto value = json::find(root, kRoleNames[role])) config.roles[role] = special_token_of(*value);
  }
  for (const std::string_view key : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto value = json::find(root, key);
    json::Array list;
    if (!value || value->get_array().get(list) != simdjson::SUCCESS) continue;
    for (const json::Element& element : list) {
      if (auto token = special_token_of(element)) config.additional.push_back(std::move(*token));
    }
  }
}

void read_added_decoder(const json::Object& decoder, TokenizerConfig& config) {
  std::vector<std::pair<int64_t, AddedToken>> tokens;
  for (const auto& [key, value] : decoder) {
    int64_t id = 0;
    for (const char c : key) {
      if (c < '0' || c > '9' || id > 0x3FFFFFFF) json::refuse("added_tokens_decoder", "an object of ids and tokens");
      id = id * 10 + (c - '0');
    }
    tokens.emplace_back(id, read_added_token(json::object_of(value, "added_tokens_decoder")));
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [id, token] : tokens) {
    config.decoder_ids.emplace_back(token.content, id);
    config.added.push_back(std::move(token));
  }
}

std::optional<bool> flag(const json::Object& root, std::string_view key) {
  const auto value = json::find(root, key);
  bool result;
  if (!value || value->get_bool().get(result) != simdjson::SUCCESS) return std::nullopt;
  return result;
}

std::string name(const json::Object& root, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const auto value = json::find(root, key);
    std::string_view text;
    if (value && value->get_string().get(text) == simdjson::SUCCESS) return std::string(text);
  }
  return {};
}

void read_tokenizer_config(const json::Object& root, TokenizerConfig& config) {
  config.exists = true;
  read_special(root, config);
  if (const auto decoder = json::find(root, "added_tokens_decoder")) {
    read_added_decoder(json::object_of(*decoder, "added_tokens_decoder"), config);
  }
  config.add_bos = flag(root, "add_bos_token");
  config.add_eos = flag(root, "add_eos_token");
  config.add_prefix_space = flag(root, "add_prefix_space");
  config.lowercase = flag(root, "do_lower_case");
  config.strip_accents = flag(root, "strip_accents");
  config.space_chinese = flag(root, "tokenize_chinese_chars");
  config.separate_vocabularies = flag(root, "separate_vocabs");
  config.source_language = name(root, {"src_lang", "source_lang"});
  config.target_language = name(root, {"tgt_lang", "target_lang"});
}

// Runs `read` on the file if it exists; errors name the file.
template <class Read>
bool with_file(const std::filesystem::path& path, Read&& read) {
  if (!std::filesystem::is_regular_file(path)) return false;
  const JsonFile file(path);
  try {
    read(file.root());
  } catch (const Error& e) { throw Error(e.code(), fmt::format("{}: {}", path.string(), e.what())); }
  return true;
}

}  // namespace

std::vector<AddedToken> TokenizerConfig::special_tokens() const {
  std::vector<AddedToken> tokens;
  const auto add = [&](const AddedToken& token) {
    const bool known = std::any_of(tokens.begin(), tokens.end(), [&](const AddedToken& other) { return other.content == token.content; });
    if (!known) tokens.push_back(token);
  };
  for (const auto& role : roles) {
    if (role) add(*role);
  }
  for (const AddedToken& token : additional) add(token);
  return tokens;
}

TokenizerConfig read_config(const std::filesystem::path& folder) {
  TokenizerConfig config;
  with_file(folder / "tokenizer_config.json", [&](const json::Object& root) { read_tokenizer_config(root, config); });
  // The older file is used only if the newer one does not list the tokens.
  if (config.added.empty()) {
    with_file(folder / "special_tokens_map.json", [&](const json::Object& root) { read_special(root, config); });
  }
  with_file(folder / "added_tokens.json", [&](const json::Object& root) {
    for (const auto& [content, id] : root) config.by_id.emplace_back(std::string(content), json::integer_of(id, content));
  });
  std::sort(config.by_id.begin(), config.by_id.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  with_file(folder / "config.json", [&](const json::Object& root) {
    config.is_encoder_decoder = flag(root, "is_encoder_decoder").value_or(false);
    int64_t id;
    if (const auto bos = json::find(root, "bos_token_id"); bos && bos->get_int64().get(id) == simdjson::SUCCESS) config.model_bos = id;
  });
  return config;
}

void apply_config(const TokenizerConfig& config, AddedTokens& added, const Model& model) {
  std::vector<AddedToken> tokens = config.added;
  const std::vector<AddedToken> special = config.special_tokens();
  for (const AddedToken& token : special) {
    const bool listed = std::any_of(tokens.begin(), tokens.end(), [&](const AddedToken& other) { return other.content == token.content; });
    const TokenId id = added.find(token.content);
    const bool known = id != kNoToken && added.token(id) != nullptr && added.token(id)->content == token.content;
    if (!listed && !known) tokens.push_back(token);
  }
  for (AddedToken& token : tokens) {
    token.special = token.special ||
                    std::any_of(special.begin(), special.end(), [&](const AddedToken& other) { return other.content == token.content; });
  }
  added.add(tokens, model);
}

SpecialIds special_ids(const TokenizerConfig& config, const TokenizerCore& core) {
  const auto id = [&](TokenizerConfig::Role role) -> std::optional<TokenId> {
    if (!config.roles[role]) return std::nullopt;
    const TokenId found = core.find(config.roles[role]->content);
    return found == kNoToken ? std::nullopt : std::optional(found);
  };
  SpecialIds ids;
  ids.bos = id(TokenizerConfig::kBos);
  ids.eos = id(TokenizerConfig::kEos);
  ids.unknown = id(TokenizerConfig::kUnknown);
  ids.separator = id(TokenizerConfig::kSeparator);
  ids.pad = id(TokenizerConfig::kPad);
  ids.classifier = id(TokenizerConfig::kClassifier);
  ids.mask = id(TokenizerConfig::kMask);
  return ids;
}

}  // namespace kvik::text
