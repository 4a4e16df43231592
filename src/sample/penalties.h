#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token.h"

namespace kvik::sample {

// How often each token of a vocabulary occurs in a list. Keeps its memory from call to call.
class TokenCounts {
 public:
  // Forgets what was counted before. Ids outside [0, vocab_size) are left out.
  void count(std::span<const TokenId> tokens, size_t vocab_size);

  void reserve(size_t vocab_size) {
    counts_.reserve(vocab_size);
    distinct_.reserve(vocab_size);
  }

  std::span<const TokenId> distinct() const { return distinct_; }  // in the order of first occurrence
  uint32_t of(TokenId id) const { return counts_[static_cast<size_t>(id)]; }

 private:
  std::vector<uint32_t> counts_;  // [vocab_size], 0 for what does not occur
  std::vector<TokenId> distinct_;
};

// Each token that occurs has its logit divided by `penalty` if it is not negative, else multiplied.
void penalize_repetition(std::span<float> logits, std::span<const TokenId> tokens, double penalty, TokenCounts& scratch);

struct CountPenalties {
  double presence = 0.0;   // subtracted once from each token that occurs
  double frequency = 0.0;  // subtracted as often as it occurs
};
// Meant for the generated tokens only. The frequency is subtracted first.
void penalize_counts(std::span<float> logits, std::span<const TokenId> tokens, CountPenalties penalties, TokenCounts& scratch);

// The logits of `ends` grow by |logit| * (factor^n_tokens - 1).
void favor_ends(std::span<float> logits, std::span<const TokenId> ends, double factor, size_t n_tokens);

// NaN becomes 0, infinities the largest finite numbers of their sign.
void replace_invalid(std::span<float> logits);

}  // namespace kvik::sample
