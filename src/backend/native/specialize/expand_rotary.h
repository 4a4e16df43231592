#pragma once

#include "backend/native/specialize/node_expander.h"

namespace kvik::native {

// A RotaryEmbedding whose tables are computed in the graph (up to the largest position), or that counts from a start position, as one that
// is given the cosines and sines of each row. False for all others, which rows can run as they are. May refuse.
Expected<bool> expand_rotary(NodeExpander& expander);

}  // namespace kvik::native
