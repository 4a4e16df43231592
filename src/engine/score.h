#pragma once

#include <span>

#include "engine/sequence.h"
#include "kvik/kvik.h"

namespace kvik::engine {

// Cuts the tokens into windows, runs each from an empty context, and scores every token but the first of each.
// Throws Error(kBadArgument) if nothing can be scored, Error(kTooLarge) for a window that exceeds the context.
Score score_windows(Sequence& sequence, std::span<const TokenId> tokens, int window, const Watch& watch = {});

}  // namespace kvik::engine
