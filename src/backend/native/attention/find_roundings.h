#pragma once

#include "backend/native/attention/context.h"

namespace kvik::native {

// A QuantizeLinear and the DequantizeLinear that reads it, among the scores of an attention.
struct ScoreRounding {
  onnx::ValueId from = onnx::kNoValue, to = onnx::kNoValue;  // input and output
  Rounding rounding;
};

// Those on the way from `start` to `end`, both scores, in order. They are matched and not probed, because probing cannot find the exact
// boundaries of rounding steps. Refuses codes that have other uses.
Expected<std::vector<ScoreRounding>> find_roundings(const AttentionContext& context, onnx::ValueId start, onnx::ValueId end);

}  // namespace kvik::native
