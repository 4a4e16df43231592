#pragma once

#include "backend/native/attention/context.h"

namespace kvik::native {

// A graph without a past computes all rows of a call together, heads and all; over a whole context that is far too much. But what is
// computed on scores is known axis by axis, so that one row of them can be taken through it alone: only the auxiliary values that it
// meets are computed for all rows.
struct RowSlice {
  onnx::ValueId from = onnx::kNoValue, to = onnx::kNoValue;  // scores
  int64_t total = 0, position = 0;
};

// `scores` is `from` with one new row and `total` keys; so is the result. Nothing if a node cannot be taken row by row. May refuse.
Expected<Evaluated<Tensor>> evaluate_row(const AttentionContext& context, const RowSlice& slice, const Tensor& scores);

}  // namespace kvik::native
