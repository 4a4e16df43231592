#pragma once

#include "backend/native/attention/probe_mask.h"

namespace kvik::native {

// An attention as the graph computes it: its inputs and its result.
struct AttentionNodes {
  const onnx::Node& node;
  Emitter::Operands operands;
  onnx::ValueId out = onnx::kNoValue;
  Axes out_axes;
  bool one_row = false;       // must agree only for one token at a time
  bool whole_prompt = false;  // see FoundAttention
  std::optional<int64_t> limit;
  // Values of further inputs (a past that an operator takes itself), of sizes.past positions.
  std::function<Expected<std::vector<Probe::Given>>(const Sizes& sizes, std::span<const float> k, std::span<const float> v)> more = {};
};

// Random queries, keys and values through the graph's nodes and through the attend: the final check of scale, cap, biases, sinks, heads and
// layouts. Refuses if they differ.
Expected<> confirm(const AttentionContext& context, const AttentionNodes& nodes, const Attend& attend);

}  // namespace kvik::native
