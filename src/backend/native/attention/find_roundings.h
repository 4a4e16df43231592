#pragma once

#include "backend/native/attention/context.h"

namespace kvik::native {

// A QuantizeLinear and the DequantizeLinear that reads it, among the scores of an attention.
struct ScoreRounding {
  onnx::ValueId from = onnx::kNoValue, to = onnx::kNoValue;  // what goes in and what comes out
  Rounding rounding;
};

// Those on the way from `start` to `end`, both scores, in order. They are read and not probed: a probe sees their steps, but not exactly
// where they begin. Refuses codes that are used for anything else.
Expected<std::vector<ScoreRounding>> find_roundings(const AttentionContext& context, onnx::ValueId start, onnx::ValueId end);

}  // namespace kvik::native
