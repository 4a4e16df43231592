#include "onnx/eval/ops/blocked_matrix.h"

#include "onnx/eval/ops/numbers.h"

namespace kvik::onnx {

int64_t BlockedMatrix::blocks() const { return blocks_of(columns, block); }

void BlockedMatrix::row(int64_t r, std::span<double> out) const {
  const auto at = static_cast<size_t>(r);
  const std::span<const uint8_t> bytes = codes.subspan(at * row_bytes, row_bytes);
  const auto first = at * static_cast<size_t>(blocks());
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t b = first + (block_of.empty() ? i / static_cast<size_t>(block) : static_cast<size_t>(block_of[i]));
    out[i] = (static_cast<double>(packed_bits(bytes, bits, i)) - zero_points[b]) * scales[b];
  }
}

std::vector<double> unpacked_zero_points(std::span<const uint8_t> bytes, int64_t rows, int64_t blocks, size_t bits) {
  const auto n = static_cast<size_t>(blocks);
  const size_t row_bytes = (n * bits + 7) / 8;
  std::vector<double> result(static_cast<size_t>(rows) * n);
  for (size_t i = 0; i < result.size(); ++i) result[i] = packed_bits(bytes.subspan(i / n * row_bytes, row_bytes), bits, i % n);
  return result;
}

Tensor multiply_rows(const Tensor& x, const BlockedMatrix& w, std::span<const double> bias) {
  require_float(x, "A");
  require(x.rank() > 0 && x.dim(-1) == w.columns, "A has shape {}; expected a last dimension of {}", to_string(x.dims()), w.columns);
  Dims dims = x.dims();
  dims.back() = w.rows;
  std::vector<double> y(static_cast<size_t>(new_tensor(x.dtype(), dims).size()));
  const std::vector<double> values = doubles_of(x);
  std::vector<double> row(static_cast<size_t>(w.columns));
  const size_t n = static_cast<size_t>(w.rows), k = row.size();
  for (size_t c = 0; c < n && !y.empty(); ++c) {
    w.row(static_cast<int64_t>(c), row);
    for (size_t r = 0; r < y.size() / n; ++r) {
      double sum = 0;
      for (size_t i = 0; i < k; ++i) sum += values[r * k + i] * row[i];
      y[r * n + c] = sum + (bias.empty() ? 0.0 : bias[c]);
    }
  }
  return tensor_of(x.dtype(), dims, y);
}

BlockedMatrix nbits_matrix(const NBits& shape, const Tensor& codes, const Tensor& scales, const Tensor& zero_points,
                           const Tensor& group_index) {
  require(shape.bits == 2 || shape.bits == 4 || shape.bits == 8, "found codes of {} bits; expected 2, 4 or 8", shape.bits);
  const bool power_of_two = (shape.block & (shape.block - 1)) == 0;
  require(shape.block >= 16 && power_of_two, "found blocks of {}; expected a power of two of at least 16", shape.block);
  BlockedMatrix w;
  w.rows = shape.n;
  w.columns = shape.k;
  w.block = shape.block;
  w.bits = static_cast<size_t>(shape.bits);
  const int64_t blocks = w.blocks();
  const int64_t blob = shape.block * shape.bits / 8;
  w.row_bytes = static_cast<size_t>(element_count(Dims{blocks, blob}));
  const int64_t n_scales = element_count(Dims{shape.n, blocks});
  require(codes.size() == element_count(Dims{shape.n, blocks, blob}), "B has shape {}; expected [{}, {}, {}]", to_string(codes.dims()),
          shape.n, blocks, blob);
  require(scales.size() == n_scales, "the scales have shape {}; expected [{}, {}]", to_string(scales.dims()), shape.n, blocks);
  w.codes = codes.data<uint8_t>();
  w.scales = doubles_of(scales);
  w.zero_points.assign(static_cast<size_t>(n_scales), static_cast<double>(1 << (shape.bits - 1)));
  if (zero_points.defined()) {
    const bool packed = zero_points.dtype() == DType::kU8;
    const int64_t expected = packed ? shape.n * blocks_of(blocks * shape.bits, 8) : n_scales;
    require(zero_points.size() == expected, "the zero points have shape {}; expected {} elements", to_string(zero_points.dims()), expected);
    w.zero_points = packed ? unpacked_zero_points(zero_points.data<uint8_t>(), shape.n, blocks, w.bits) : doubles_of(zero_points);
  }
  if (group_index.defined()) {
    require(group_index.size() == shape.k || group_index.size() == blocks * shape.block, "g_idx has shape {}; expected {} elements",
            to_string(group_index.dims()), shape.k);
    w.block_of = integers_of(group_index);
    for (const int64_t b : w.block_of) require(b >= 0 && b < blocks, "g_idx contains {}, there are {} blocks", b, blocks);
  }
  return w;
}

}  // namespace kvik::onnx
