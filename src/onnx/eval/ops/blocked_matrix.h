#pragma once

#include <span>
#include <vector>

#include "onnx/eval/ops/common.h"

namespace kvik::onnx {

// A block-quantized matrix of packed codes, lowest bits first; each block of a row has a scale and a zero point:
// element = (code - zero point) * scale.
struct BlockedMatrix {
  int64_t rows = 0, columns = 0;
  int64_t block = 0;  // columns that share a scale
  size_t bits = 0;    // 2, 4 or 8
  size_t row_bytes = 0;
  std::span<const uint8_t> codes;
  std::vector<double> scales, zero_points;  // [rows, blocks]
  std::vector<int64_t> block_of;            // per column: its block; empty if blocks are consecutive

  int64_t blocks() const;
  void row(int64_t r, std::span<double> out) const;
};

// Zero points [rows, blocks]; each row is padded to whole bytes.
std::vector<double> unpacked_zero_points(std::span<const uint8_t> bytes, int64_t rows, int64_t blocks, size_t bits);

// y[…, n] = sum over k of x[…, k] * w[n, k] + bias[n]; x has w.columns as its last axis, bias may be empty.
Tensor multiply_rows(const Tensor& x, const BlockedMatrix& w, std::span<const double> bias);

// The weights of a MatMulNBits; `zero_points` and `group_index` may be undefined.
struct NBits {
  int64_t n, k, block, bits;
};
BlockedMatrix nbits_matrix(const NBits& shape, const Tensor& codes, const Tensor& scales, const Tensor& zero_points,
                           const Tensor& group_index);

}  // namespace kvik::onnx
