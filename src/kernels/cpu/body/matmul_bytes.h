#pragma once

#include "kernels/cpu/body/declarations.h"
#include "kernels/cpu/body/tiles.h"

// Rows of bytes with one scale and zero point each, by weights with one scale and zero point a column: integer sums over all of k, as
// MatmulInteger defines them, then float(sum) * (row_scale * weight_scale).
namespace kvik::cpu::KVIK_ISA {

template <int R, int P>
KVIK_INLINE void byte_tile(const PackedWeights& m, const ByteRows& x, const MatmulOut& out, int64_t row, int64_t panel) {
  const uint8_t* at[P];
  for (int i = 0; i < P; ++i) at[i] = reinterpret_cast<const uint8_t*>(m.data) + (panel + i) * m.layout.panel_bytes;
  const int8_t* q = x.q + row * x.stride;
  I acc[R][P];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) acc[r][i] = start_w8(x.sum[row + r]);
  const int64_t n_groups = (m.layout.k + 3) / 4;
  for (int64_t g = 0; g < n_groups; ++g) {
    W8 w[P];
    for (int i = 0; i < P; ++i) w[i] = load_w8(at[i] + 192 + g * 64);
    for (int r = 0; r < R; ++r) {
      const A8 a = bcast_a8(q + r * x.stride + g * 4);
      for (int i = 0; i < P; ++i) acc[r][i] = dot_w8_full(acc[r][i], w[i], a);
    }
  }
  for (int i = 0; i < P; ++i) {
    const F scale = load(reinterpret_cast<const float*>(at[i]));
    const I zero_points = iload(at[i] + 64), column_sums = iload(at[i] + 128);
    for (int r = 0; r < R; ++r) {
      // sum of (a - za)(w - zw) = sum aw - zw sum a - za (sum w - k zw), with both bytes less 128
      const I row_zero = ibcast(x.zero_point[row + r] - 128);
      const I offset = isub(column_sums, imul(zero_points, ibcast(static_cast<int32_t>(m.layout.k))));
      const I sum = isub(isub(acc[r][i], imul(zero_points, ibcast(x.sum[row + r]))), imul(row_zero, offset));
      store_sums(out, row + r, (panel + i) * kLanes, m.layout.n, mul(to_float(sum), mul(bcast(x.scale[row + r]), scale)));
    }
  }
}

void matmul_bytes(const PackedWeights& weights, const ByteRows& x, const MatmulOut& out, PanelRange range) {
  panel_groups<kBlockPanels>(range, x.n_rows > 4, [&](auto panels, int64_t p) {
    row_tiles<kBlockRows>(x.n_rows, [&](auto rows, int64_t row) { byte_tile<rows.value, panels.value>(weights, x, out, row, p); });
  });
}

}  // namespace kvik::cpu::KVIK_ISA
