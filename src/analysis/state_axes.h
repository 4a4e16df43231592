#pragma once

#include <vector>

#include "analysis/graph_facts.h"

namespace kvik::analysis {

// Finds the axes, heads, head size, capacity and stacked layers of every state from the graph, and numbers layers that have no number in
// their names. Values that remain 0 must come from config files.
void find_axes(const GraphFacts& facts, const File& file, std::vector<State>& states);

}  // namespace kvik::analysis
