#pragma once

#include "kernels/cpu/body/declarations.h"
#include "kernels/cpu/body/six_bits.h"
#include "kernels/cpu/body/tiles.h"

// Quantized rows by block-quantized weights. Integer sums over a block of the row (32, 64 or 128 k, of which a block of the weights has
// one or several; 16 where blocks of weights are 16) are exact; then, block by block,
//   f = fma(float(sum) * row_scale, weight_scale, f)
namespace kvik::cpu::KVIK_ISA {

KVIK_INLINE void prefetch_line(const uint8_t* p) {
  if constexpr (kPrefetchBytes > 0) prefetch(p + kPrefetchBytes);
}

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
  KVIK_INLINE Weights load(const uint8_t* step, int line) {
    prefetch_line(step + line * 64);
    return load_w8(step + line * 64);
  }
  KVIK_INLINE Acc start(int32_t sum) { return start_w8(sum); }
  KVIK_INLINE Acc start(int32_t sum, I zero_points) { return start_w8(sum, zero_points); }
  KVIK_INLINE Acc dot(Acc c, const Weights& w, const Activations& a) { return dot_w8(c, w, a.four); }
  KVIK_INLINE Acc widen(Acc c) { return c; }
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
  KVIK_INLINE Weights load(const uint8_t* step, int line) {
    prefetch_line(step + line * 64);
    return load_w4(step + line * 64);
  }
  KVIK_INLINE Acc start(int32_t sum) { return start_w4(sum); }
  KVIK_INLINE Acc start(int32_t sum, I zero_points) { return start_w4(sum, zero_points); }
  KVIK_INLINE Acc dot(Acc c, const Weights& w, const Activations& a) { return dot_w4(c, w, a.low, a.high); }
  KVIK_INLINE Acc widen(Acc c) { return widen_w4(c); }  // between two steps
  KVIK_INLINE I sum(Acc c) { return sum_w4(c); }
};

struct Six {
  using Weights = SixBits;
  using Acc = I;
  using Activations = Four::Activations;
  static constexpr int kBits = 6, kKPerLine = 8;
  template <int kStep>
  KVIK_INLINE Activations activations(const int8_t* q, int64_t line) {
    return Four::activations<kStep>(q, line);
  }
  KVIK_INLINE Weights load(const uint8_t* step, int line) {
    prefetch_line(step + line * 64);
    if (line % 2 == 0) prefetch_line(step + 256 + line * 32);
    return six_bits(step, line);
  }
  KVIK_INLINE Acc start(int32_t sum) { return ibcast(-32 * sum); }
  KVIK_INLINE Acc dot(Acc c, const Weights& w, const Activations& a) { return dot_w6(c, w.low, a.low, w.high, a.high); }
  KVIK_INLINE Acc widen(Acc c) { return c; }
  KVIK_INLINE I sum(Acc c) { return c; }
};

// A kind of block weights: its bytes, the k of a step, the type of its scales, whether it has zero points.
template <class Bytes_, int kStep_, class Scale_, bool kZeroPoints_>
struct BlockKind {
  using Bytes = Bytes_;
  using Scale = Scale_;
  static constexpr int kStep = kStep_, kLines = kStep / Bytes::kKPerLine, kStepBytes = kStep * kLanes * Bytes::kBits / 8;
  static constexpr int kUnitBlocks = sizeof(Scale) == 2 ? 2 : 1;  // blocks whose scales fill one line
  static constexpr bool kZeroPoints = kZeroPoints_;
};

// The rows of a tile at one of their blocks.
struct BlockRows {
  const int8_t* q;
  const float* scale;
  const int32_t* sum;
  int64_t q_stride, n_blocks;
};

template <class Kind, int R, int P>
KVIK_INLINE void add_step(typename Kind::Bytes::Acc (&acc)[R][P], const uint8_t* const (&lines)[P], const BlockRows& rows) {
  using Bytes = typename Kind::Bytes;
  KVIK_UNROLL
  for (int line = 0; line < Kind::kLines; ++line) {
    typename Bytes::Weights w[P];
    for (int i = 0; i < P; ++i) w[i] = Bytes::load(lines[i], line);
    for (int r = 0; r < R; ++r) {
      const auto a = Bytes::template activations<Kind::kStep>(rows.q + r * rows.q_stride, line);
      for (int i = 0; i < P; ++i) acc[r][i] = Bytes::dot(acc[r][i], w[i], a);
    }
  }
}

// One block of the rows, of n_steps steps. lines: the weights of its first step in each panel; they and the rows go on to the next block.
// scale, zero_points: of the weights' block in each panel.
template <class Kind, int R, int P>
KVIK_INLINE void row_block(F (&f)[R][P], const F (&scale)[P], const I (&zero_points)[P], const uint8_t* (&lines)[P], BlockRows& rows,
                           int64_t n_steps) {
  using Bytes = typename Kind::Bytes;
  typename Bytes::Acc acc[R][P];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) {
      if constexpr (Kind::kZeroPoints)
        acc[r][i] = Bytes::start(rows.sum[r * rows.n_blocks], zero_points[i]);
      else
        acc[r][i] = Bytes::start(rows.sum[r * rows.n_blocks]);
    }
  for (int64_t s = 0;;) {
    add_step<Kind>(acc, lines, rows);
    for (int i = 0; i < P; ++i) lines[i] += Kind::kStepBytes;
    rows.q += 32;
    if (++s == n_steps) break;
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < P; ++i) acc[r][i] = Bytes::widen(acc[r][i]);
  }
  for (int r = 0; r < R; ++r) {
    const F row_scale = bcast(rows.scale[r * rows.n_blocks]);
    for (int i = 0; i < P; ++i) f[r][i] = fma(mul(to_float(Bytes::sum(acc[r][i])), row_scale), scale[i], f[r][i]);
  }
  ++rows.scale;
  ++rows.sum;
}

// Bytes that a tile fetches into the second-level cache, spread over its work.
struct Ahead {
  const uint8_t* at;
  int64_t bytes;
};

// What the tile at `row` fetches of the panels after those from `panel` on: all tiles together fetch all of it.
template <int P>
KVIK_INLINE Ahead ahead_of_tile(const PackedWeights& m, int64_t n_rows, int64_t row, int64_t panel) {
  const int64_t left = m.layout.n_panels - panel - P, n_panels = left < P ? left : P;
  if (P == 1 || left <= 0) return {nullptr, 0};
  const int64_t n_tiles = (n_rows + kBlockRows - 1) / kBlockRows, total = n_panels * m.layout.panel_bytes;
  const int64_t share = (total / n_tiles + 63) / 64 * 64, first = row / kBlockRows * share;
  const uint8_t* next = reinterpret_cast<const uint8_t*>(m.data) + (panel + P) * m.layout.panel_bytes;
  return {next + first, total - first < share ? total - first : share};
}

KVIK_INLINE void fetch(Ahead& ahead, int64_t bytes) {
  for (; bytes > 0 && ahead.bytes > 0; bytes -= 64, ahead.bytes -= 64, ahead.at += 64) prefetch_second_level(ahead.at);
}

// kBlockSteps: those of the rows, or 0 if they are known only at run time.
template <class Kind, int kBlockSteps, int R, int P>
KVIK_INLINE void block_tile(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, int64_t row, int64_t panel, Ahead ahead) {
  const WeightLayout& layout = m.layout;
  const uint8_t *at[P], *zero_points_at[P];
  for (int i = 0; i < P; ++i) {
    at[i] = reinterpret_cast<const uint8_t*>(m.data) + (panel + i) * layout.panel_bytes;
    zero_points_at[i] = reinterpret_cast<const uint8_t*>(m.data) + layout.zero_points_offset + (panel + i) * layout.n_blocks * kLanes;
  }
  if constexpr (R > 1) prefetch_sums<R, P>(out, row, panel * kLanes);
  const int64_t steps_per_block = layout.block / 32;
  const int64_t block_steps = kBlockSteps > 0 ? kBlockSteps : x.block_steps;
  BlockRows rows{x.q + row * x.n_steps * 32, x.scale + row * x.n_blocks, x.sum + row * x.n_blocks, x.n_steps * 32, x.n_blocks};
  int64_t steps_left = x.n_steps;  // padding beyond the rows' own is skipped
  [[maybe_unused]] const int64_t fetched_per_unit = ahead.bytes * Kind::kUnitBlocks / layout.n_blocks + 64;
  F f[R][P];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) f[r][i] = zero();
  for (int64_t unit = 0; unit < layout.n_blocks; unit += Kind::kUnitBlocks) {
    const uint8_t* lines[P];
    for (int i = 0; i < P; ++i) lines[i] = at[i] + 64;
    if constexpr (P > 1) fetch(ahead, fetched_per_unit);
    KVIK_UNROLL
    for (int b = 0; b < Kind::kUnitBlocks; ++b) {
      F scale[P];
      I zero_points[P];
      for (int i = 0; i < P; ++i) {
        scale[i] = load(reinterpret_cast<const typename Kind::Scale*>(at[i]) + b * kLanes);
        zero_points[i] = Kind::kZeroPoints ? iload_u8(zero_points_at[i] + (unit + b) * kLanes) : ibcast(0);
      }
      const int64_t steps = steps_per_block < steps_left ? steps_per_block : steps_left;
      for (int64_t s = 0; s < steps; s += block_steps) {
        const int64_t n_steps = kBlockSteps == 1 ? 1 : block_steps < steps - s ? block_steps : steps - s;
        row_block<Kind>(f, scale, zero_points, lines, rows, n_steps);
      }
      for (int i = 0; i < P; ++i) lines[i] += (steps_per_block - steps) * Kind::kStepBytes;
      steps_left -= steps;
    }
    for (int i = 0; i < P; ++i) at[i] = lines[i];
  }
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) store_sums(out, row + r, (panel + i) * kLanes, layout.n, f[r][i]);
}

// Blocks of 16: two to a block of the rows, each with its own sum.
template <class Kind, int R>
KVIK_INLINE void block16_tile(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, int64_t row, int64_t panel) {
  const WeightLayout& layout = m.layout;
  const uint8_t* at = reinterpret_cast<const uint8_t*>(m.data) + panel * layout.panel_bytes;
  const uint8_t* zero_points_at = reinterpret_cast<const uint8_t*>(m.data) + layout.zero_points_offset + panel * layout.n_blocks * kLanes;
  F f[R][1];
  for (int r = 0; r < R; ++r) f[r][0] = zero();
  for (int64_t b = 0; b < layout.n_blocks; ++b) {
    const int64_t step = b / 2;
    int32_t sum[R];
    for (int r = 0; r < R; ++r) {
      const int64_t i = (row + r) * x.n_blocks + step;
      sum[r] = b % 2 == 0 ? x.half_sum[i] : x.sum[i] - x.half_sum[i];
    }
    const F scale[1] = {load(reinterpret_cast<const typename Kind::Scale*>(at))};
    const I zero_points[1] = {iload_u8(zero_points_at + b * kLanes)};
    for (int r = 0; r < R; ++r) {
      F one[1][1] = {{f[r][0]}};
      const uint8_t* lines[1] = {at + 64};
      BlockRows rows{x.q + (row + r) * x.n_steps * 32 + b * 16, x.scale + (row + r) * x.n_blocks + step, &sum[r], 0, 0};
      row_block<Kind>(one, scale, zero_points, lines, rows, 1);
      f[r][0] = one[0][0];
    }
    at += 64 + Kind::kStepBytes;
  }
  for (int r = 0; r < R; ++r) store_sums(out, row + r, panel * kLanes, layout.n, f[r][0]);
}

template <class Kind, int kBlockSteps>
void matmul_blocks(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, PanelRange range) {
  if (x.n_rows == 1) {
    for (int64_t p = range.begin; p < range.end; ++p) block_tile<Kind, kBlockSteps, 1, 1>(m, x, out, 0, p, {});
    return;
  }
  const bool wide = x.n_rows > (Kind::Bytes::kBits == 8 ? 4 : 8);
  panel_groups<kBlockPanels>(range, wide, [&](auto panels, int64_t p) {
    row_tiles<kBlockRows>(x.n_rows, [&](auto rows, int64_t row) {
      const Ahead ahead = ahead_of_tile<panels.value>(m, x.n_rows, row, p);
      block_tile<Kind, kBlockSteps, rows.value, panels.value>(m, x, out, row, p, ahead);
    });
  });
}

template <class Kind>
void matmul_kind(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, PanelRange range) {
  if (x.block_steps == 1) return matmul_blocks<Kind, 1>(m, x, out, range);
  matmul_blocks<Kind, 0>(m, x, out, range);
}

template <class Kind>
void matmul_blocks16(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, PanelRange range) {
  for (int64_t p = range.begin; p < range.end; ++p)
    row_tiles<2>(x.n_rows, [&](auto rows, int64_t row) { block16_tile<Kind, rows.value>(m, x, out, row, p); });
}

template <class Bytes>
void matmul_blocks_of(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, PanelRange range) {
  if (m.layout.block == 16) return matmul_blocks16<BlockKind<Bytes, 16, float, true>>(m, x, out, range);
  if (m.layout.has_zero_points) return matmul_kind<BlockKind<Bytes, 32, float, true>>(m, x, out, range);
  if (m.layout.scales == ScaleFormat::kF32) return matmul_kind<BlockKind<Bytes, 32, float, false>>(m, x, out, range);
  matmul_kind<BlockKind<Bytes, 32, Half, false>>(m, x, out, range);
}

void matmul_quantized(const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out, PanelRange range) {
  switch (weights.layout.format) {
    case WeightFormat::kBlocks8: return matmul_blocks_of<Eight>(weights, x, out, range);
    case WeightFormat::kBlocks6: return matmul_kind<BlockKind<Six, 32, Half, false>>(weights, x, out, range);
    default: return matmul_blocks_of<Four>(weights, x, out, range);
  }
}

}  // namespace kvik::cpu::KVIK_ISA
