#pragma once

#include <map>
#include <string>
#include <vector>

#include "analysis/graph_facts.h"

namespace kvik::analysis {

// What is said about ports outside the graph.
struct Hints {
  using Roles = std::map<std::string, Role, std::less<>>;
  Roles inputs, outputs;            // kvik.json: they decide
  Roles weak_inputs, weak_outputs;  // genai_config.json: for what nothing else tells
};

// The states of a graph: inputs with the outputs that continue them, found by following their contents through the graph,
// then by names, then by order; and those that a graph only makes (a first step) or only reads (cross attention). What they
// hold and how they grow is told; their axes are not.
std::vector<State> pair_states(const GraphFacts& facts, const File& file, const Hints& hints);

}  // namespace kvik::analysis
