#pragma once

#include "backend/native/label/graph_labeler.h"

namespace kvik::native {

// For a node that no rule lets through: if it is computed from tokens alone, and turns out not to depend on them (positions counted
// from ids that differ from the pad id), its outputs become auxiliary. Tokens for which that is wrong are listed as unsupported.
bool make_token_free(GraphLabeler& labeler, onnx::NodeId node);

// The same for what such a node reads. True where an operand became auxiliary, so that the node may be tried again.
bool make_operands_token_free(GraphLabeler& labeler, onnx::NodeId node);

}  // namespace kvik::native
