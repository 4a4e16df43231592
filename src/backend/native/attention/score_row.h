#pragma once

#include "backend/native/attention/context.h"

namespace kvik::native {

// A graph without a past computes all rows and heads of a call together, which is too expensive for a whole context. But the operations on
// scores are known axis by axis, so one row of scores can be evaluated alone: only the auxiliary values that it meets are computed for all
// rows.
struct RowSlice {
  onnx::ValueId from = onnx::kNoValue, to = onnx::kNoValue;  // scores
  int64_t total = 0, position = 0;
};

// `scores` is `from` with one new row and `total` keys; so is the result. Nullopt if a node cannot be evaluated row by row. May refuse.
Expected<Evaluated<Tensor>> evaluate_row(const AttentionContext& context, const RowSlice& slice, const Tensor& scores);

}  // namespace kvik::native
