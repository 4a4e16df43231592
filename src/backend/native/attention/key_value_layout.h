#pragma once

#include "backend/native/attention/find_region.h"

namespace kvik::native {

// Which elements of two rows meet in a product: result[i] = scale * sum over j of a[a_map[i][j]] * b[b_map[i][j]].
struct ProductMap {
  int64_t n_results = 0, n_inner = 0;
  std::vector<int32_t> a, b;  // [n_results][n_inner]
  float scale = 1;
};

// For MatMul and similar operators, on rows of these shapes. May refuse.
Expected<ProductMap> product_map(const onnx::Node& node, const Dims& a, const Dims& b);

// Axes of its output. May refuse.
Expected<Axes> product_axes(const onnx::Node& node, Axes a, Axes b);

// Where the elements of an operand come from: operand[i] = scale * value[map[i]].
struct SourceMap {
  onnx::ValueId value = onnx::kNoValue;
  std::vector<int32_t> map;
  float scale = 1;
};

// The smallest value, and of those the earliest, that the operand is only a rearrangement of (transposed, reshaped, heads repeated,
// appended to the past; scaled by a constant if that is allowed). The operand itself if there is none.
SourceMap smallest_source(const AttentionContext& context, onnx::ValueId operand, bool may_scale);

// The new part of an append to the past, whatever node does it; kNoValue if the node is not an append.
onnx::ValueId appended_by(const Labels& labels, const onnx::Node& node);

// Fills heads, sizes and maps of the attend for the operands of the two products, every head with its own keys and values; folds the scale
// of the first product. May refuse.
Expected<> set_layout(const Labels& labels, const Region& region, Attend& attend);

// Reads the operands from their smallest sources instead; heads that read the same keys and values then share them.
void read_from_sources(const AttentionContext& context, FoundAttention& found);

}  // namespace kvik::native
