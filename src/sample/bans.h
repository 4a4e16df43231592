#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/token.h"
#include "sample/options.h"

namespace kvik::sample {

// A banned token has the logit -inf. Ids outside the vocabulary are skipped.
void ban(std::span<float> logits, std::span<const TokenId> ids);

// Bans all but `ids`, which get 0.
void force(std::span<float> logits, std::span<const TokenId> ids);

// Bans what would make the last n tokens a sequence that `tokens` already holds. A scan of the tokens, not a table: 1 ns per token is
// nothing beside computing the logits, and there is nothing to keep in step with forks and rewinds.
void ban_repeated_ngrams(std::span<float> logits, std::span<const TokenId> tokens, size_t n);

// Bans what would make the last n tokens a sequence of `source`.
void ban_ngrams_of(std::span<const TokenId> source, std::span<float> logits, std::span<const TokenId> tokens, size_t n);

// Bans the last id of each sequence whose other ids are what `tokens` ends with. A sequence longer than `tokens` is skipped.
void ban_sequences(std::span<float> logits, std::span<const TokenId> tokens, std::span<const std::vector<TokenId>> sequences);

// Biases of tokens after certain others, grouped by the token they are for. Immutable.
class SequenceBiases {
 public:
  // Of several entries with the same ids the last counts.
  explicit SequenceBiases(std::span<const SequenceBias> entries);

  // All biases of a token are summed before they are added to its logit. A sequence of more than one id that is longer than `tokens` is
  // skipped, even if its beginning would fit.
  void apply(std::span<float> logits, std::span<const TokenId> tokens) const;
  bool empty() const { return entries_.empty(); }
  bool only_lower() const {
    return std::ranges::all_of(entries_, [](const SequenceBias& entry) { return entry.bias <= 0; });
  }

 private:
  std::vector<SequenceBias> entries_;  // by their last id; those of one id first
};

}  // namespace kvik::sample
