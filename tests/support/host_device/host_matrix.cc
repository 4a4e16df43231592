#include <algorithm>
#include <vector>

#include "kernels/device/math.h"
#include "kernels/device/order.h"
#include "support/host_device/host_units.h"
#include "support/host_device/tensor_core.h"
#include "tensor/small_float.h"

namespace kvik::testing_support {
namespace {

using namespace device;

// The factors of one column of a matrix, padded as rows of x are at least.
struct ColumnFactors {
  std::vector<uint16_t> planes[2];
  std::vector<float> scales;  // of blocks; empty: floats
};

ColumnFactors factors_of(const UnitReader& reader, int64_t n) {
  ColumnFactors column;
  const int64_t k = reader.padded_k();
  for (int plane = 0; plane < reader.n_planes(); ++plane) {
    column.planes[plane].resize(static_cast<size_t>(k));
    for (int64_t i = 0; i < k; ++i) column.planes[plane][static_cast<size_t>(i)] = reader.factor(n, i, plane);
  }
  if (reader.is_float()) return column;
  for (int64_t i = 0; i < k; i += kBlockColumns) column.scales.push_back(reader.block_scale(n, i));
  return column;
}

float slice_sum(const ColumnFactors& w, const uint16_t* x, int64_t plane_stride, int64_t begin, int64_t end) {
  const uint16_t* high = w.planes[0].data();
  if (!w.scales.empty()) {
    float sum = 0.0f;
    for (int64_t k = begin; k < end; k += kBlockColumns)
      sum = fused(w.scales[static_cast<size_t>(k / kBlockColumns)], tensor_core_chain(high + k, x + k, kBlockColumns), sum);
    return sum;
  }
  const float main = tensor_core_chain(high + begin, x + begin, end - begin);
  if (w.planes[1].empty()) return main;
  const float high_low = tensor_core_chain(high + begin, x + plane_stride + begin, end - begin);
  const float low_high = tensor_core_chain(w.planes[1].data() + begin, x + begin, end - begin);
  return main + (high_low + low_high) * (1.0f / kPlaneStep);
}

float product(const ColumnFactors& w, const uint16_t* x, int64_t plane_stride) {
  const auto k = static_cast<int64_t>(w.planes[0].size());
  float total = 0.0f;
  for (int64_t group = 0; group < k; group += kGroupColumns) {
    float sum = 0.0f;
    for (int64_t slice = group; slice < std::min<int64_t>(k, group + kGroupColumns); slice += kSliceColumns)
      sum += slice_sum(w, x, plane_stride, slice, std::min<int64_t>(k, slice + kSliceColumns));
    total += sum;
  }
  return total;
}

}  // namespace

void execute(const Matrix& step) {
  const UnitReader reader(step.weights);
  const int64_t padded = (step.weights.k + 63) / 64 * 64, row_elements = padded * reader.n_planes();
  for (int64_t n = 0; n < step.weights.n; ++n) {
    const ColumnFactors column = factors_of(reader, n);
    each_row(step.rows, step.selection, [&](const RowAt& row) {
      for (int64_t part = 0; part < step.parts; ++part) {
        float y = product(column, row_of<uint16_t>(step.x, row) + part * row_elements, padded);
        y = y * row_of(step.scale, row)[part] * reader.column_scale(n);
        if (step.bias != Address::kNone) y += at<float>(step.bias)[n];
        if (is_there(step.residual)) y += row_of(step.residual, row)[part * step.weights.n + n];
        row_of(step.out, row)[part * step.weights.n + n] = y;
      }
    });
  }
}

void execute(const Embed& step) {
  const UnitReader reader(step.weights);
  each_row(step.rows, step.selection, [&](const RowAt& row) {
    int64_t token = step.narrow ? *row_of<int32_t>(step.token, row) : *row_of<int64_t>(step.token, row);
    if (token < 0) token += step.weights.n;
    if (token < 0 || token >= step.weights.n) {
      *at<int32_t>(step.error) = 1;
      token = 0;
    }
    for (int64_t k = 0; k < step.weights.k; ++k) row_of(step.out, row)[k] = reader.value(token, k);
  });
}

float to_half(const float* x, int64_t n, int planes, int64_t padded, uint16_t* out) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, bits_of(x[i]) & 0x7fffffffu);
  const int32_t exponent = half_exponent(largest);
  std::fill_n(out, padded * planes, uint16_t{0});
  for (int64_t i = 0; i < n; ++i) {
    const float scaled = x[i] * power_of_two(exponent);
    const Half high = scaled;
    out[i] = high.bits;
    if (planes == 2) out[padded + i] = Half((scaled - float{high}) * kPlaneStep).bits;
  }
  return power_of_two(-exponent);
}

void execute(const ToHalf& step) {
  each_row(step.rows, step.selection, [&](const RowAt& row) {
    for (int64_t part = 0; part < step.parts; ++part) {
      uint16_t* out = row_of<uint16_t>(step.out, row) + part * step.planes * step.padded_k;
      row_of(step.scale, row)[part] = to_half(row_of(step.x, row) + part * step.k, step.k, step.planes, step.padded_k, out);
    }
  });
}

}  // namespace kvik::testing_support
