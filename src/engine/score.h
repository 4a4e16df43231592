#pragma once

#include <span>
#include <vector>

#include "engine/sequence.h"

namespace kvik::engine {

struct Score {
  std::vector<double> logprobs;  // natural logarithms, of every token but the first of each window
  double sum = 0;
  double perplexity() const;  // exp of the mean of -logprob
};

// Cuts the tokens into windows, runs each alone from an empty context, and scores every token but the first of each.
// Throws Error(kBadArgument) where nothing can be scored, Error(kTooLarge) for a window beyond the context.
Score score_windows(Sequence& sequence, std::span<const TokenId> tokens, int window, const AppendWatch& watch = {});

}  // namespace kvik::engine
