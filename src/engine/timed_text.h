#pragma once

#include <span>
#include <vector>

#include "sample/timestamps.h"

namespace kvik::engine {

// A text between two times of a window.
struct TimedTokens {
  double start_s = 0, end_s = 0;  // from the beginning of the window
  std::vector<TokenId> ids;       // with the times around it
};

struct TimedWindow {
  std::vector<TimedTokens> texts;
  double advance_s = 0;  // where the next window begins, from the beginning of this one
};

// Cuts what a decoder said about a window at its pairs of times, as the reference implementation does. A text without an end is said again
// by the next window, which begins at the last pair; without a pair the whole window is one text. `ids`: without the end token.
TimedWindow cut_at_times(std::span<const TokenId> ids, const sample::TimestampRules& rules, double s_per_index, double window_s);

}  // namespace kvik::engine
