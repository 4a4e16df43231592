#include "sample/penalties.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/deterministic_math.h"

namespace kvik::sample {

void TokenCounts::count(std::span<const TokenId> tokens, size_t vocab_size) {
  for (const TokenId id : distinct_) counts_[static_cast<size_t>(id)] = 0;
  distinct_.clear();
  counts_.resize(vocab_size);
  for (const TokenId id : tokens) {
    if (id < 0 || static_cast<size_t>(id) >= vocab_size) continue;
    if (counts_[static_cast<size_t>(id)]++ == 0) distinct_.push_back(id);
  }
}

void penalize_repetition(std::span<float> logits, std::span<const TokenId> tokens, double penalty, TokenCounts& scratch) {
  scratch.count(tokens, logits.size());
  const auto factor = static_cast<float>(penalty);
  for (const TokenId id : scratch.distinct()) {
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit < 0 ? logit * factor : logit / factor;
  }
}

void penalize_counts(std::span<float> logits, std::span<const TokenId> tokens, CountPenalties penalties, TokenCounts& scratch) {
  scratch.count(tokens, logits.size());
  const auto presence = static_cast<float>(penalties.presence);
  const auto frequency = static_cast<float>(penalties.frequency);
  for (const TokenId id : scratch.distinct()) {
    float& logit = logits[static_cast<size_t>(id)];
    logit -= frequency * static_cast<float>(scratch.of(id));
    logit -= presence;
  }
}

void favor_ends(std::span<float> logits, std::span<const TokenId> ends, double factor, size_t n_tokens) {
  const auto growth = static_cast<float>(deterministic_pow(factor, static_cast<double>(n_tokens)) - 1.0);
  for (size_t i = 0; i < ends.size(); ++i) {
    const std::span<const TokenId> before = ends.first(i);
    const bool again = std::ranges::find(before, ends[i]) != before.end();
    if (again || ends[i] < 0 || static_cast<size_t>(ends[i]) >= logits.size()) continue;
    float& logit = logits[static_cast<size_t>(ends[i])];
    if (std::isfinite(logit)) logit += std::abs(logit) * growth;  // a banned end stays banned
  }
}

void replace_invalid(std::span<float> logits) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (float& logit : logits) {
    if (std::isnan(logit)) logit = 0.0f;
    if (std::isinf(logit)) logit = logit > 0 ? kLargest : -kLargest;
  }
}

}  // namespace kvik::sample
