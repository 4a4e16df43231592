#pragma once

#include "kernels/cpu/body/declarations.h"
#include "kernels/cpu/body/tiles.h"

// Rows by f32, f16 or bf16 weights: f = fma(x[k], w[k], f), from zero, for k = 0, 1, 2 ...
namespace kvik::cpu::KVIK_ISA {

// Floats are read faster than quantized weights. Of f32 from a third-level cache, 8 KB ahead are up to 1.1 times as fast as 4 KB (Zen 5).
constexpr int kFloatPrefetchBytes = 2 * kPrefetchBytes;

// R rows by V vectors of 16 columns, the first of them vector `c`; a panel holds two. kAhead: what follows the weights is fetched.
template <class T, int R, int V, bool kAhead>
KVIK_INLINE void float_tile(const PackedWeights& m, const FloatRows& x, const MatmulOut& out, int64_t row, int64_t c) {
  const int64_t n_k = m.layout.k;
  const T* w[V];
  for (int i = 0; i < V; ++i) w[i] = reinterpret_cast<const T*>(m.data + (c + i) / 2 * m.layout.panel_bytes) + (c + i) % 2 * kLanes;
  const float* xr[R];
  for (int r = 0; r < R; ++r) xr[r] = x.data + (row + r) * x.stride;
  F f[R][V];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < V; ++i) f[r][i] = zero();
  KVIK_UNROLL4
  for (int64_t k = 0; k < n_k; ++k) {
    F v[V];
    for (int i = 0; i < V; ++i) {
      if constexpr (kAhead) prefetch(reinterpret_cast<const char*>(w[i] + k * 32) + kFloatPrefetchBytes);
      v[i] = load(w[i] + k * 32);
    }
    for (int r = 0; r < R; ++r) {
      const F b = bcast(xr[r][k]);
      for (int i = 0; i < V; ++i) f[r][i] = fma(b, v[i], f[r][i]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < V; ++i) store_sums(out, row + r, (c + i) * kLanes, m.layout.n, f[r][i]);
}

// Whole panels: one ascending stream. The first rows fetch what follows; the others find it in the cache.
template <class T, int kRows>
KVIK_INLINE void float_panels(const PackedWeights& m, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  for (int64_t p = range.begin; p < range.end; ++p) {
    even_row_tiles<kRows>(x.n_rows, [&](auto rows, int64_t row) {
      if (kPrefetchBytes > 0 && row == 0)
        float_tile<T, rows.value, 2, kPrefetchBytes != 0>(m, x, out, row, 2 * p);
      else
        float_tile<T, rows.value, 2, false>(m, x, out, row, 2 * p);
    });
  }
}

template <class T>
void matmul_floats(const PackedWeights& m, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  if constexpr (kFloatVectors == 2) {
    float_panels<T, kFloatRows>(m, x, out, range);
  } else {  // few registers: half a panel at a time, but whole panels for one or two rows, which makes one ascending stream
    if (x.n_rows <= 2) return float_panels<T, 2>(m, x, out, range);
    panel_groups<kFloatVectors>({2 * range.begin, 2 * range.end}, true, [&](auto vectors, int64_t c) {
      row_tiles<kFloatRows>(x.n_rows, [&](auto rows, int64_t row) { float_tile<T, rows.value, vectors.value, false>(m, x, out, row, c); });
    });
  }
}

void matmul(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  switch (weights.layout.format) {
    case WeightFormat::kF32: return matmul_floats<float>(weights, x, out, range);
    case WeightFormat::kF16: return matmul_floats<Half>(weights, x, out, range);
    case WeightFormat::kBF16: return matmul_floats<BFloat16>(weights, x, out, range);
    case WeightFormat::kBlocks8: return matmul_eight_f32(weights, x, out, range);
    case WeightFormat::kBlocks6: return matmul_six_f32(weights, x, out, range);
    case WeightFormat::kBlocks4: return matmul_four_f32(weights, x, out, range);
    case WeightFormat::kChannels8: return;
  }
}

}  // namespace kvik::cpu::KVIK_ISA
