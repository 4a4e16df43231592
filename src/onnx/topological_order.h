#pragma once

#include "onnx/graph.h"

namespace kvik::onnx {

// Puts every node after those whose outputs it reads, keeping the file's order where that is allowed.
// Throws Error(kBadModel) naming a node of a cycle, or a value that nothing computes.
void sort_topologically(Graph& graph);

}  // namespace kvik::onnx
