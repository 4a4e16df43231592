#pragma once

#include <memory>

#include "backend/native/graph/flat_graph.h"
#include "backend/native/graph/outcome.h"

// First stage: turns the graph of a file into the flat graph that the compiler works on.
//
// In: a file with the roles of its inputs (analysis), and the requested branch of a merged decoder.
// Out: a copy of the graph. Values and nodes of the file keep their numbers; the compiler appends to it.
// Afterwards: every input has a meaning, the flag of a merged decoder is a constant, casts to narrow floats are casts to f32.
//
// Two parts of the stage need labels, because their decisions depend on sizes, and are called during labeling: resolve_if.h replaces an If
// with the chosen branch, and expand.h replaces composite operators. Both only append nodes that are then labeled like all others, so a
// rule never sees an If or an operator that expand.h has replaced.
namespace kvik::native {

Outcome<std::shared_ptr<FlatGraph>> specialize(const analysis::File& file, bool cached_branch);

// Replaces an If with a branch: its nodes are appended and compute the outputs of the If. Refuses a branch with too few outputs.
Expected<> inline_branch(FlatGraph& flat, onnx::NodeId node, bool condition);

}  // namespace kvik::native
