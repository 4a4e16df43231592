#pragma once

#include "backend/native/specialize/node_expander.h"

namespace kvik::native {

// Rewrites a RotaryEmbedding whose tables are computed in the graph (up to the largest position), or that counts from a start position, so
// that its inputs are the cosines and sines of each row. False for all others, which need no change. May refuse.
Expected<bool> expand_rotary(NodeExpander& expander);

}  // namespace kvik::native
