#pragma once

#include "backend/native/label/graph_labeler.h"

namespace kvik::native {

// Writes a node that is shorthand (an embedding with its norm, an attention with its projection, a rotary inside it) as the nodes it
// stands for; they are appended to the graph and compute its outputs from now on. False for all other nodes. Its inputs are labelled.
// Throws Refusal.
bool expand_composite_op(GraphLabeler& labeler, onnx::NodeId node);

}  // namespace kvik::native
