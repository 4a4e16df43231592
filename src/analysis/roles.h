#pragma once

#include "analysis/graph_facts.h"
#include "analysis/state_pairs.h"

namespace kvik::analysis {

// Finds the tokens (or embeddings) and the encoder's hidden states among the inputs of `file` and records them in `facts`. Throws
// Error(kBadArgument) if two inputs could be the tokens.
void find_tokens(GraphFacts& facts, File& file, const Hints& hints);

// Assigns the roles of all other ports. Call it after the states are known.
void assign_roles(const GraphFacts& facts, File& file, const Hints& hints);

}  // namespace kvik::analysis
