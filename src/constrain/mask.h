#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token.h"

namespace kvik::constrain {

// A set of tokens. Immutable; stored as a list if that is smaller.
class Mask {
 public:
  Mask() = default;
  // One bit per token.
  explicit Mask(std::span<const uint64_t> words);

  bool contains(TokenId id) const;
  size_t count() const { return count_; }
  size_t bytes() const { return sizeof *this + words_.capacity() * sizeof(uint64_t) + ids_.capacity() * sizeof(TokenId); }

  // Sets all logits to minus infinity except those of the tokens and of `kept`.
  void apply(std::span<float> logits, std::span<const TokenId> kept) const;

 private:
  size_t count_ = 0;
  std::vector<uint64_t> words_;  // empty: ids_
  std::vector<TokenId> ids_;     // sorted
};

}  // namespace kvik::constrain
