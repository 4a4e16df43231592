#pragma once

#include <span>
#include <vector>

#include "sample/timestamps.h"

namespace kvik::engine {

// The tokens between two timestamps of a window.
struct TimedTokens {
  double start_s = 0, end_s = 0;  // from the beginning of the window
  std::vector<TokenId> ids;       // including the timestamp tokens around them
};

struct TimedWindow {
  std::vector<TimedTokens> texts;
  double advance_s = 0;  // where the next window begins, from the beginning of this one
};

// Splits the tokens of a window at its pairs of timestamps, as the reference implementation does. A segment without an end is transcribed
// again in the next window, which begins at the last pair; without a pair, the whole window is one segment. `ids`: without the end token.
TimedWindow cut_at_times(std::span<const TokenId> ids, const sample::TimestampRules& rules, double s_per_index, double window_s);

}  // namespace kvik::engine
