#pragma once

#include "analysis/configs.h"
#include "analysis/signature.h"

namespace kvik::analysis {

// Takes head counts and head sizes that the graph does not tell from the configs.
void complete_states(File& file, const Configs& configs);

// Sets cache, vocabulary, positions and special tokens of the model, and records contradictions. Files and kind must be set.
void summarize(Signature& signature, const Configs& configs);

}  // namespace kvik::analysis
