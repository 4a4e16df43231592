#pragma once

#include <memory>

#include "backend/native/graph/flat_graph.h"
#include "backend/native/graph/outcome.h"

// First stage: from the graph of a file to the flat graph that the compiler works on.
//
// In: a file with the meaning of its inputs (analysis), and which branch of a merged decoder is wanted.
// Out: a copy of the graph. Values and nodes of the file keep their numbers; the compiler appends to it.
// Afterwards: every input has its meaning, the flag of a merged decoder is a constant, casts to narrow floats are casts to f32.
//
// Two parts of the stage need labels, because what they decide depends on sizes, and are called while labels are found: resolve_if.h puts
// the chosen branch in the place of an If, and expand.h replaces composite operators. Both only append nodes that are labeled afterwards
// like all others, so a rule never sees an If or an operator that expand.h has replaced.
namespace kvik::native {

Outcome<std::shared_ptr<FlatGraph>> specialize(const analysis::File& file, bool cached_branch);

// Puts the branch in the place of an If: its nodes are appended, and the outputs of the If are computed by them from now on. Refuses a
// branch that gives too little.
Expected<> inline_branch(FlatGraph& flat, onnx::NodeId node, bool condition);

}  // namespace kvik::native
