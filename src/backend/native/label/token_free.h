#pragma once

#include "backend/native/label/graph_labeler.h"

namespace kvik::native {

// For a node that every rule refuses: if it is computed only from tokens and probing shows that it does not depend on them (positions
// counted from ids that differ from the pad id), its outputs become auxiliary. Tokens for which this is wrong are listed as unsupported.
bool make_token_free(GraphLabeler& labeler, onnx::NodeId node);

// The same for the operands of such a node. True if an operand became auxiliary, so that the node can be tried again.
bool make_operands_token_free(GraphLabeler& labeler, onnx::NodeId node);

}  // namespace kvik::native
