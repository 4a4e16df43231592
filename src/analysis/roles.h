#pragma once

#include "analysis/graph_facts.h"
#include "analysis/state_pairs.h"

namespace kvik::analysis {

// Finds the tokens (or embeddings) and the encoder's hidden states among the inputs of `file` and notes them in `facts`;
// the states are read with their help. Throws Error(kBadArgument) where two inputs could be the tokens.
void find_tokens(GraphFacts& facts, File& file, const Hints& hints);

// Gives every other port its role, once the states are known.
void assign_roles(const GraphFacts& facts, File& file, const Hints& hints);

}  // namespace kvik::analysis
