#pragma once

#include "analysis/configs.h"
#include "analysis/signature.h"

namespace kvik::analysis {

// Fills in what the graph left open about heads and head sizes from the configs.
void complete_states(File& file, const Configs& configs);

// Cache, vocabulary, positions and special tokens of the whole model, and what contradicts what. Files and kind are known.
void summarize(Signature& signature, const Configs& configs);

}  // namespace kvik::analysis
