#include "constrain/token_trie.h"

#include <algorithm>

#include "base/utf8.h"

namespace kvik::constrain {

TokenTrie::TokenTrie(std::vector<TokenId> ids, std::span<const std::string> bytes) {
  const auto bytes_of = [&](TokenId id) -> const std::string& { return bytes[static_cast<size_t>(id)]; };
  std::ranges::sort(ids, [&](TokenId a, TokenId b) {
    const int order = bytes_of(a).compare(bytes_of(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<uint32_t> path;  // nodes from the first byte of the token before
  std::string_view before;
  for (const TokenId id : ids) {
    const std::string_view text = bytes_of(id);
    const auto n_common = static_cast<size_t>(std::ranges::mismatch(before, text).in2 - text.begin());
    while (path.size() > n_common) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
      path.pop_back();
    }
    for (size_t i = n_common; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint32_t>(tokens_.size()), static_cast<uint16_t>(i + 1), static_cast<uint8_t>(text[i])});
    }
    tokens_.push_back(id);
    depth_ = std::max(depth_, text.size());
    before = text;
  }
  for (const uint32_t node : path) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({static_cast<uint32_t>(nodes_.size() + 1), static_cast<uint32_t>(tokens_.size()), 0, 0});
}

size_t n_plain_characters(std::string_view bytes) {
  if (!utf8::is_valid(bytes)) return 0;
  size_t n = 0;
  for (const char byte : bytes) {
    const auto value = static_cast<uint8_t>(byte);
    if (value < 0x20 || value == '"' || value == '\\' || value == 0x7F) return 0;
    n += utf8::begins_character(byte) ? 1 : 0;
  }
  return n;
}

TokenTexts::TokenTexts(std::vector<std::string> bytes, size_t vocab_size) : bytes_(std::move(bytes)), vocab_size_(vocab_size) {
  bytes_.resize(vocab_size);
  std::vector<TokenId> plain, others;
  plain_up_to_.assign(kMostCharacters, std::vector<uint64_t>(n_words(), 0));
  for (size_t id = 0; id < vocab_size; ++id) {
    if (bytes_[id].empty() || bytes_[id].size() > kLongestToken) continue;
    const size_t n_characters = n_plain_characters(bytes_[id]);
    const bool is_plain = n_characters > 0 && n_characters <= kMostCharacters;
    (is_plain ? plain : others).push_back(static_cast<TokenId>(id));
    for (size_t n = n_characters; is_plain && n <= kMostCharacters; ++n) plain_up_to_[n - 1][id / 64] |= uint64_t{1} << (id % 64);
  }
  plain_ = TokenTrie(std::move(plain), bytes_);
  others_ = TokenTrie(std::move(others), bytes_);
}

}  // namespace kvik::constrain
