#pragma once

#include "backend/native/probe/compile_state.h"

namespace kvik::native {

// Replaces a composite operator (an embedding with its norm, an attention with its projection, a rotary inside it) with primitive nodes;
// they are appended to the graph and compute its outputs. False for all other nodes. Its inputs must be labeled. May refuse.
Expected<bool> expand_composite_op(CompileState& state, onnx::NodeId node);

}  // namespace kvik::native
