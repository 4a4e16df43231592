#pragma once

#include "backend/native/rows/walk.h"

namespace kvik::native {

// Writes a node that is shorthand (an embedding with its norm, an attention with its projection, a rotary inside it) as the nodes it
// stands for; they are appended to the graph and compute its outputs from now on. False for all other nodes. Its inputs are labelled.
// Throws Refusal.
bool spell_out(Walk& walk, onnx::NodeId node);

}  // namespace kvik::native
