#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/flow.h"

// Constants and shapes, without running the graph.
namespace kvik::analysis {

// An integer constant of at most 64 elements, also behind casts and reshapes; nullopt if it is computed.
std::optional<std::vector<int64_t>> constant_ints(const Flow& flow, FlowValue value);
// The only element of such a constant.
std::optional<int64_t> constant_int(const Flow& flow, FlowValue value);

// The known elements of the target of a Reshape or Expand; exporters often concatenate lengths and constants. Empty if nothing is known.
std::vector<std::optional<int64_t>> partial_ints(const Flow& flow, FlowValue value);

// Shape of a weight after casts, dequantization and transposition; nullopt if it is not a weight.
std::optional<Dims> weight_dims(const Flow& flow, FlowValue value);

// The table that a lookup reads (Gather on a weight along its first axis); nullopt for any other node.
struct Table {
  int64_t rows = 0;
  int64_t width = 0;  // 0: unknown, because it is packed
};
std::optional<Table> looked_up_table(const Flow& flow, const FlowNode& node);

// Whether a value is a product with weights, also behind biases, scales, caps and reshapes: the output of a head. A sum of two computed
// values (a residual) is not.
bool is_product_with_weights(const Flow& flow, FlowValue value);

// Size of the last axis, from declarations, weights and constants; nullopt if unknown.
std::optional<int64_t> last_dim(const Flow& flow, FlowValue value);

}  // namespace kvik::analysis
