#pragma once

#include <memory>

#include "backend/native/graph/flat_graph.h"

namespace kvik::native {

// A copy of the file's graph to work on: every input has its meaning from the signature, and the flag of a merged decoder is a
// constant, so that the branches it decides on are decided. Casts to narrow floats are casts to f32. Throws Refusal.
std::shared_ptr<FlatGraph> specialize(const analysis::File& file, bool cached_branch);

// Puts the branch in the place of an If: its nodes are appended, and the outputs of the If are computed by them from now on.
void inline_branch(FlatGraph& flat, onnx::NodeId node, bool condition);

}  // namespace kvik::native
