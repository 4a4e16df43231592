#pragma once

#include <vector>

#include "analysis/graph_facts.h"

namespace kvik::analysis {

// Tells the axes of every state apart and fills in heads, head size, capacity and stacked layers, as far as the graph
// tells; numbers the layers that no name numbers. What stays 0 must come from config files.
void find_axes(const GraphFacts& facts, const File& file, std::vector<State>& states);

}  // namespace kvik::analysis
