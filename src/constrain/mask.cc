#include "constrain/mask.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace kvik::constrain {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

bool is_in(std::span<const float> logits, TokenId id) { return id >= 0 && static_cast<size_t>(id) < logits.size(); }

std::vector<float> values_of(std::span<const TokenId> ids, std::span<const float> logits) {
  std::vector<float> values(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) values[i] = is_in(logits, ids[i]) ? logits[static_cast<size_t>(ids[i])] : 0;
  return values;
}

void put_back(std::span<const TokenId> ids, std::span<const float> values, std::span<float> logits) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (is_in(logits, ids[i])) logits[static_cast<size_t>(ids[i])] = values[i];
  }
}

}  // namespace

Mask::Mask(std::span<const uint64_t> words) {
  for (const uint64_t word : words) count_ += static_cast<size_t>(std::popcount(word));
  if (count_ * sizeof(TokenId) >= words.size_bytes()) {
    words_.assign(words.begin(), words.end());
    return;
  }
  ids_.reserve(count_);
  for (size_t i = 0; i < words.size(); ++i) {
    for (uint64_t word = words[i]; word != 0; word &= word - 1)
      ids_.push_back(static_cast<TokenId>(i * 64 + static_cast<size_t>(std::countr_zero(word))));
  }
}

bool Mask::contains(TokenId id) const {
  if (id < 0) return false;
  if (words_.empty()) return std::ranges::binary_search(ids_, id);
  const auto i = static_cast<size_t>(id);
  return i / 64 < words_.size() && (words_[i / 64] >> (i % 64) & 1) != 0;
}

void Mask::apply(std::span<float> logits, std::span<const TokenId> kept) const {
  // Few tokens: what they had is put back afterwards.
  const std::vector<float> kept_values = values_of(kept, logits);
  if (words_.empty()) {
    const std::vector<float> values = values_of(ids_, logits);
    std::ranges::fill(logits, kForbidden);
    put_back(ids_, values, logits);
  } else {
    for (size_t i = 0; i * 64 < logits.size(); ++i) {
      const uint64_t word = i < words_.size() ? words_[i] : 0;
      const std::span<float> part = logits.subspan(i * 64, std::min<size_t>(64, logits.size() - i * 64));
      if (word == ~uint64_t{0}) continue;
      if (word == 0) {
        std::ranges::fill(part, kForbidden);
        continue;
      }
      for (size_t j = 0; j < part.size(); ++j) part[j] = (word >> j & 1) != 0 ? part[j] : kForbidden;
    }
  }
  put_back(kept, kept_values, logits);
}

}  // namespace kvik::constrain
