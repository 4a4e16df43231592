#include "text/unicode/charsmap.h"

#include <cstring>
#include <fmt/format.h>

#include "base/utf8.h"
#include "kvik/error.h"

namespace kvik::text {
namespace {

uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) == 1; }
uint32_t label_of(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
uint32_t value_of(uint32_t unit) { return unit & ((1u << 31) - 1); }

}  // namespace

Charsmap::Charsmap(std::string_view blob) {
  if (blob.empty()) return;
  uint32_t trie_bytes = 0;
  if (blob.size() > 4) std::memcpy(&trie_bytes, blob.data(), 4);
  if (blob.size() <= 4 || trie_bytes > blob.size() - 4 || trie_bytes % 4 != 0 || trie_bytes == 0) {
    throw Error(Code::kBadModel,
                fmt::format("the character map has {} bytes, but its index should have {}; it is damaged", blob.size(), trie_bytes));
  }
  units_.resize(trie_bytes / 4);
  std::memcpy(units_.data(), blob.data() + 4, trie_bytes);
  texts_ = blob.substr(4 + trie_bytes);
  if (!utf8::is_valid(texts_)) { throw Error(Code::kBadModel, "the character map has text that is not UTF-8; it is damaged"); }
}

Charsmap::Match Charsmap::find(std::string_view text, bool first) const {
  Match match;
  if (units_.empty()) return match;
  // Offsets of a damaged map may be out of range, which counts as no match.
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit) || node >= units_.size()) continue;
    const size_t begin = value_of(units_[node]);
    if (begin > texts_.size() || (begin < texts_.size() && !utf8::begins_character(texts_[begin]))) continue;
    const size_t end = texts_.find('\0', begin);
    match = {i + 1, std::string_view(texts_).substr(begin, end == std::string::npos ? end : end - begin)};
    if (first) break;
  }
  return match;
}

}  // namespace kvik::text
