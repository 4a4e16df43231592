#pragma once

#include "backend/native/attention/probe_mask.h"

namespace kvik::native {

// An attention as the graph spells it: these values are given, that one is computed.
struct AttentionNodes {
  const onnx::Node& node;
  Emitter::Operands operands;
  onnx::ValueId out = onnx::kNoValue;
  Axes out_axes;
  bool one_row = false;       // only its meaning token by token is claimed
  bool whole_prompt = false;  // see FoundAttention
  std::optional<int64_t> limit;
  // Values of other inputs that would have to be given (a past that an operator takes itself), of sizes.past positions.
  std::function<Expected<std::vector<Probe::Given>>(const Sizes& sizes, std::span<const float> k, std::span<const float> v)> more = {};
};

// Random queries, keys and values through the graph's nodes and through the attend: the last word on scale, cap, biases, sinks, heads
// and layouts. Refuses if they differ.
Expected<> confirm(const AttentionContext& context, const AttentionNodes& nodes, const Attend& attend);

}  // namespace kvik::native
