#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/graph_facts.h"

namespace kvik::analysis {

// Roles from config files.
struct Hints {
  using Roles = std::map<std::string, Role, std::less<>>;
  Roles inputs, outputs;            // kvik.json: take precedence over the graph
  Roles weak_inputs, weak_outputs;  // genai_config.json: used only if nothing else determines the role
};

// The states of a graph: pairs of an input and the output that continues it, matched by dataflow, then by names, then by order; and states
// that the graph only computes (first step) or only reads (cross attention). Sets what they hold and how they grow, but not their axes.
std::vector<State> pair_states(const GraphFacts& facts, const File& file, const Hints& hints);

}  // namespace kvik::analysis
