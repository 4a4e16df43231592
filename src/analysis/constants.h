#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/flow.h"

// What can be known about values without running anything.
namespace kvik::analysis {

// An integer constant of at most 64 elements, also behind casts and changes of shape; nothing when it is computed.
std::optional<std::vector<int64_t>> constant_ints(const Flow& flow, FlowValue value);
// The only element of such a constant.
std::optional<int64_t> constant_int(const Flow& flow, FlowValue value);

// The target of a Reshape or Expand as far as it is known, element by element: exporters put lengths and constants together
// with a Concat. Empty when nothing is known.
std::vector<std::optional<int64_t>> partial_ints(const Flow& flow, FlowValue value);

// Shape of a weight as its reader sees it: behind casts, dequantisation and transposition. Nothing when it is no weight.
std::optional<Dims> weight_dims(const Flow& flow, FlowValue value);

// Rows of the table that a lookup reads (Gather on a weight along its first axis); nothing for any other node.
struct Table {
  int64_t rows = 0;
  int64_t width = 0;  // 0 when it is packed and so unknown
};
std::optional<Table> looked_up_table(const Flow& flow, const FlowNode& node);

// Size of the last axis, from declarations, weights and constants; nothing when it cannot be known.
std::optional<int64_t> last_dim(const Flow& flow, FlowValue value);

}  // namespace kvik::analysis
