#pragma once

#include <optional>
#include <span>

#include "base/token.h"

namespace kvik::sample {

// Tokens of a speech model that are times: <|0.00|>, <|0.02|>, … up to the end of the vocabulary.
struct TimestampRules {
  TokenId first = 0;                     // <|0.00|>; the one before it means "no timestamps"
  TokenId end = 0;                       // of a text; what is below it is text
  std::optional<int> max_initial_index;  // of the first time of a window, counted from `first`

  bool is_time(TokenId id) const { return id >= first; }
};

// What the reference implementations allow after `generated`: times come in pairs around a text, never decrease, begin every window, and
// are taken where all of them together are likelier than every other token. `scores`: logits or log-probabilities; -inf: not allowed.
void apply_timestamp_rules(std::span<float> scores, std::span<const TokenId> generated, const TimestampRules& rules);

}  // namespace kvik::sample
