#pragma once

#include "onnx/graph.h"

namespace kvik::onnx {

// Sorts nodes topologically and keeps the order of the file if possible. Throws Error(kBadModel) for a cycle or an undefined value.
void sort_topologically(Graph& graph);

}  // namespace kvik::onnx
