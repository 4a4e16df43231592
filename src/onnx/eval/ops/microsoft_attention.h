#pragma once

#include "onnx/eval/ops/attend.h"
#include "onnx/eval/ops/common.h"

namespace kvik::onnx {

// The padding masks of com.microsoft's Attention and MultiHeadAttention: 0 in a mask adds `filter` to a score instead of -infinity.
class PaddingMask {
 public:
  // mask: [batch] lengths; [2 * batch] ends, then starts; [3 * batch + 2] lengths, then unused values; [batch, keys];
  // [batch, queries, keys]; [batch, 1, m, m] with m at least `keys`, rows counted from the past. Undefined: no mask.
  PaddingMask(const Tensor& mask, const Heads& q, int64_t n_keys, double filter);
  void add_to(int64_t b, int64_t i, std::span<double> scores) const;

 private:
  bool masked(int64_t b, int64_t i, int64_t j) const;

  enum class Form { kNone, kLengths, kEndsAndStarts, kKeys, kQueriesAndKeys, kSquare };
  Form form_ = Form::kNone;
  std::vector<int64_t> values_;
  int64_t batch_ = 0, queries_ = 0, keys_ = 0, side_ = 0;
  double filter_ = 0;
};

struct MultiHead {
  Work work;
  Heads q, k, v;
  int64_t past_length = 0;  // of k and v, before the new tokens
  bool causal = false;
  double scale = 1;
  double mask_filter = -10000;
  Tensor mask, bias;
  Heads* scores = nullptr;  // if not null: receives the scores after mask and bias, [batch, heads, queries, keys]
};

Heads attend_multi_head(const MultiHead& x);

}  // namespace kvik::onnx
