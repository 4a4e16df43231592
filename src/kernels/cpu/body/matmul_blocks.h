#pragma once

#include "kernels/cpu/body/declarations.h"
#include "kernels/cpu/body/tiles.h"

// Quantised rows by block-quantised weights. Integer sums over a step of 32 k (16 where blocks are 16) are exact; then, step by step,
//   f = fma(float(sum) * row_scale, weight_scale, f)
namespace kvik::cpu::KVIK_ISA {

// The byte products of a format, over the primitives of the instruction set.
struct Eight {
  using Weights = W8;
  using Acc = I;
  struct Activations {
    A8 four;
  };
  static constexpr int kBits = 8, kKPerLine = 4;
  template <int kStep>
  KVIK_INLINE Activations activations(const int8_t* q, int64_t line) {
    return {bcast_a8(q + line * 4)};
  }
  KVIK_INLINE Weights load(const uint8_t* p) {
    if constexpr (kPrefetchBytes > 0) prefetch(p + kPrefetchBytes);
    return load_w8(p);
  }
  KVIK_INLINE Acc start(int32_t sum) { return start_w8(sum); }
  KVIK_INLINE Acc start(int32_t sum, I zero_points) { return start_w8(sum, zero_points); }
  KVIK_INLINE Acc dot(Acc c, const Weights& w, const Activations& a) { return dot_w8(c, w, a.four); }
  KVIK_INLINE I sum(Acc c) { return c; }
};

struct Four {
  using Weights = W4;
  using Acc = Acc4;
  struct Activations {
    A8 low, high;
  };
  static constexpr int kBits = 4, kKPerLine = 8;
  template <int kStep>
  KVIK_INLINE Activations activations(const int8_t* q, int64_t line) {
    return {bcast_a8(q + line * 4), bcast_a8(q + kStep / 2 + line * 4)};
  }
  KVIK_INLINE Weights load(const uint8_t* p) {
    if constexpr (kPrefetchBytes > 0) prefetch(p + kPrefetchBytes);
    return load_w4(p);
  }
  KVIK_INLINE Acc start(int32_t sum) { return start_w4(sum); }
  KVIK_INLINE Acc start(int32_t sum, I zero_points) { return start_w4(sum, zero_points); }
  KVIK_INLINE Acc dot(Acc c, const Weights& w, const Activations& a) { return dot_w4(c, w, a.low, a.high); }
  KVIK_INLINE I sum(Acc c) { return sum_w4(c); }
};

// A kind of block weights: its bytes, the k of a step, the type of its scales, whether it has zero points.
template <class Bytes_, int kStep_, class Scale_, bool kZeroPoints_>
struct BlockKind {
  using Bytes = Bytes_;
  using Scale = Scale_;
  static constexpr int kStep = kStep_, kLines = kStep / Bytes::kKPerLine, kStepBytes = kLines * 64;
  static constexpr int kUnitBlocks = sizeof(Scale) == 2 ? 2 : 1;  // blocks whose scales fill one line
  static constexpr bool kZeroPoints = kZeroPoints_;
};

// The rows of a tile at one step.
struct StepRows {
  const int8_t* q;
  const float* scale;
  const int32_t* sum;
  int64_t q_stride, n_steps;
};

// lines: the step's weights in each panel. zero_points: of its block in each panel.
template <class Kind, int R, int P>
KVIK_INLINE void block_step(F (&f)[R][P], const F (&scale)[P], const I (&zero_points)[P], const uint8_t* const (&lines)[P],
                            const StepRows& rows) {
  using Bytes = typename Kind::Bytes;
  typename Bytes::Acc acc[R][P];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) {
      if constexpr (Kind::kZeroPoints)
        acc[r][i] = Bytes::start(rows.sum[r * rows.n_steps], zero_points[i]);
      else
        acc[r][i] = Bytes::start(rows.sum[r * rows.n_steps]);
    }
  KVIK_UNROLL
  for (int line = 0; line < Kind::kLines; ++line) {
    typename Bytes::Weights w[P];
    for (int i = 0; i < P; ++i) w[i] = Bytes::load(lines[i] + line * 64);
    for (int r = 0; r < R; ++r) {
      const auto a = Bytes::template activations<Kind::kStep>(rows.q + r * rows.q_stride, line);
      for (int i = 0; i < P; ++i) acc[r][i] = Bytes::dot(acc[r][i], w[i], a);
    }
  }
  for (int r = 0; r < R; ++r) {
    const F row_scale = bcast(rows.scale[r * rows.n_steps]);
    for (int i = 0; i < P; ++i) f[r][i] = fma(mul(to_float(Bytes::sum(acc[r][i])), row_scale), scale[i], f[r][i]);
  }
}

template <class Kind, int R, int P>
KVIK_INLINE void block_tile(const PackedWeights& m, const QuantisedRows& x, const MatmulOut& out, int64_t row, int64_t panel) {
  const WeightLayout& layout = m.layout;
  const uint8_t *at[P], *zero_points_at[P];
  for (int i = 0; i < P; ++i) {
    at[i] = reinterpret_cast<const uint8_t*>(m.data) + (panel + i) * layout.panel_bytes;
    zero_points_at[i] = reinterpret_cast<const uint8_t*>(m.data) + layout.zero_points_offset + (panel + i) * layout.n_blocks * kLanes;
  }
  if constexpr (R > 1) prefetch_sums<R, P>(out, row, panel * kLanes);
  const int64_t steps_per_block = layout.block / 32;
  StepRows rows{x.q + row * x.n_steps * 32, x.scale + row * x.n_steps, x.sum + row * x.n_steps, x.n_steps * 32, x.n_steps};
  int64_t steps_left = x.n_steps;  // padding beyond the rows' own is skipped
  F f[R][P];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) f[r][i] = zero();
  for (int64_t unit = 0; unit < layout.n_blocks; unit += Kind::kUnitBlocks) {
    const uint8_t* lines[P];
    for (int i = 0; i < P; ++i) lines[i] = at[i] + 64;
    KVIK_UNROLL
    for (int b = 0; b < Kind::kUnitBlocks; ++b) {
      F scale[P];
      I zero_points[P];
      for (int i = 0; i < P; ++i) {
        scale[i] = load(reinterpret_cast<const typename Kind::Scale*>(at[i]) + b * kLanes);
        zero_points[i] = Kind::kZeroPoints ? iload_u8(zero_points_at[i] + (unit + b) * kLanes) : ibcast(0);
      }
      const int64_t steps = steps_per_block < steps_left ? steps_per_block : steps_left;
      for (int64_t s = 0; s < steps; ++s) {
        block_step<Kind>(f, scale, zero_points, lines, rows);
        for (int i = 0; i < P; ++i) lines[i] += Kind::kStepBytes;
        rows.q += 32;
        ++rows.scale;
        ++rows.sum;
      }
      for (int i = 0; i < P; ++i) lines[i] += (steps_per_block - steps) * Kind::kStepBytes;
      steps_left -= steps;
    }
    for (int i = 0; i < P; ++i) at[i] = lines[i];
  }
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) store_sums(out, row + r, (panel + i) * kLanes, layout.n, f[r][i]);
}

// Blocks of 16: two to a step of the rows, each with its own sum.
template <class Kind, int R>
KVIK_INLINE void block16_tile(const PackedWeights& m, const QuantisedRows& x, const MatmulOut& out, int64_t row, int64_t panel) {
  const WeightLayout& layout = m.layout;
  const uint8_t* at = reinterpret_cast<const uint8_t*>(m.data) + panel * layout.panel_bytes;
  const uint8_t* zero_points_at = reinterpret_cast<const uint8_t*>(m.data) + layout.zero_points_offset + panel * layout.n_blocks * kLanes;
  F f[R][1];
  for (int r = 0; r < R; ++r) f[r][0] = zero();
  for (int64_t b = 0; b < layout.n_blocks; ++b) {
    const int64_t step = b / 2;
    int32_t sum[R];
    for (int r = 0; r < R; ++r) {
      const int64_t i = (row + r) * x.n_steps + step;
      sum[r] = b % 2 == 0 ? x.half_sum[i] : x.sum[i] - x.half_sum[i];
    }
    const F scale[1] = {load(reinterpret_cast<const typename Kind::Scale*>(at))};
    const I zero_points[1] = {iload_u8(zero_points_at + b * kLanes)};
    const uint8_t* const lines[1] = {at + 64};
    for (int r = 0; r < R; ++r) {
      F one[1][1] = {{f[r][0]}};
      block_step<Kind>(one, scale, zero_points, lines,
                       {x.q + (row + r) * x.n_steps * 32 + b * 16, x.scale + (row + r) * x.n_steps + step, &sum[r], 0, 0});
      f[r][0] = one[0][0];
    }
    at += 64 + Kind::kStepBytes;
  }
  for (int r = 0; r < R; ++r) store_sums(out, row + r, panel * kLanes, layout.n, f[r][0]);
}

template <class Kind>
void matmul_blocks(const PackedWeights& m, const QuantisedRows& x, const MatmulOut& out, PanelRange range) {
  if (x.n_rows == 1) {
    for (int64_t p = range.begin; p < range.end; ++p) block_tile<Kind, 1, 1>(m, x, out, 0, p);
    return;
  }
  const bool wide = x.n_rows > (Kind::Bytes::kBits == 8 ? 4 : 8);
  panel_groups<kBlockPanels>(range, wide, [&](auto panels, int64_t p) {
    row_tiles<kBlockRows>(x.n_rows, [&](auto rows, int64_t row) { block_tile<Kind, rows.value, panels.value>(m, x, out, row, p); });
  });
}

template <class Kind>
void matmul_blocks16(const PackedWeights& m, const QuantisedRows& x, const MatmulOut& out, PanelRange range) {
  for (int64_t p = range.begin; p < range.end; ++p)
    row_tiles<2>(x.n_rows, [&](auto rows, int64_t row) { block16_tile<Kind, rows.value>(m, x, out, row, p); });
}

template <class Bytes>
void matmul_blocks_of(const PackedWeights& m, const QuantisedRows& x, const MatmulOut& out, PanelRange range) {
  if (m.layout.block == 16) return matmul_blocks16<BlockKind<Bytes, 16, float, true>>(m, x, out, range);
  if (m.layout.has_zero_points) return matmul_blocks<BlockKind<Bytes, 32, float, true>>(m, x, out, range);
  if (m.layout.scales == ScaleFormat::kF32) return matmul_blocks<BlockKind<Bytes, 32, float, false>>(m, x, out, range);
  matmul_blocks<BlockKind<Bytes, 32, Half, false>>(m, x, out, range);
}

void matmul_quantised(const PackedWeights& weights, const QuantisedRows& x, const MatmulOut& out, PanelRange range) {
  if (weights.layout.format == WeightFormat::kBlocks8) return matmul_blocks_of<Eight>(weights, x, out, range);
  matmul_blocks_of<Four>(weights, x, out, range);
}

}  // namespace kvik::cpu::KVIK_ISA
