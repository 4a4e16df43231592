#pragma once

#include "kernels/cpu/body/declarations.h"
#include "kernels/cpu/body/six_bits.h"
#include "kernels/cpu/body/tiles.h"

// Quantized rows by block-quantized weights. A part is what a block of the row (128 values) and a block of the weights share; its integer
// sum is exact. Part by part, then block of the row by block of the row,
//   g = fma(float(sum), weight_scale, g)
//   f = fma(g, row_scale, f), and g = 0
namespace kvik::cpu::KVIK_ISA {

// One panel at a time comes from memory; of several, all but the first tile read what is in the cache (see Ahead).
template <int P>
KVIK_INLINE void prefetch_line(const uint8_t* p) {
  if constexpr (kPrefetchBytes > 0 && P == 1) prefetch(p + kPrefetchBytes);
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
  template <int P>
  KVIK_INLINE Weights load(const uint8_t* step, int line) {
    prefetch_line<P>(step + line * 64);
    return load_w8(step + line * 64);
  }
  KVIK_INLINE Acc start(const int32_t& sum) { return start_w8(sum); }
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
  template <int P>
  KVIK_INLINE Weights load(const uint8_t* step, int line) {
    prefetch_line<P>(step + line * 64);
    return load_w4(step + line * 64);
  }
  KVIK_INLINE Acc start(const int32_t& sum) { return start_w4(sum); }
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
  template <int P>
  KVIK_INLINE Weights load(const uint8_t* step, int line) {
    prefetch_line<P>(step + line * 64);
    if (line % 2 == 0) prefetch_line<P>(step + 256 + line * 32);
    return six_bits(step, line);
  }
  KVIK_INLINE Acc start(const int32_t& sum) { return ibcast(-32 * sum); }
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

// The rows of a tile at one of their parts.
struct BlockRows {
  const int8_t* q;
  const float* scale;
  const int32_t* sum;
  int64_t q_stride, n_blocks, n_parts;
};

template <class Kind, int R, int P>
KVIK_INLINE void add_step(typename Kind::Bytes::Acc (&acc)[R][P], const uint8_t* const (&lines)[P], const BlockRows& rows) {
  using Bytes = typename Kind::Bytes;
  KVIK_UNROLL
  for (int line = 0; line < Kind::kLines; ++line) {
    typename Bytes::Weights w[P];
    for (int i = 0; i < P; ++i) w[i] = Bytes::template load<P>(lines[i], line);
    for (int r = 0; r < R; ++r) {
      const auto a = Bytes::template activations<Kind::kStep>(rows.q + r * rows.q_stride, line);
      for (int i = 0; i < P; ++i) acc[r][i] = Bytes::dot(acc[r][i], w[i], a);
    }
  }
}

// Bytes that a tile fetches into the second-level cache, spread over its work.
struct Ahead {
  const uint8_t* at;
  int64_t bytes;
  int64_t bytes_per_step;
};

KVIK_INLINE void fetch_step(Ahead& ahead) {
  const int64_t end = ahead.bytes - ahead.bytes_per_step;
  for (; ahead.bytes > 0 && ahead.bytes > end; ahead.bytes -= 64, ahead.at += 64) prefetch_second_level(ahead.at);
}

// One part, of n_steps steps. lines: the weights of its first step in each panel; they and the rows go on to the next part.
// scale, zero_points: of the weights' block in each panel.
template <class Kind, int R, int P>
KVIK_INLINE void add_part(F (&g)[R][P], const F (&scale)[P], const I (&zero_points)[P], const uint8_t* (&lines)[P], BlockRows& rows,
                          Ahead& ahead, int64_t n_steps) {
  using Bytes = typename Kind::Bytes;
  typename Bytes::Acc acc[R][P];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) {
      if constexpr (Kind::kZeroPoints)
        acc[r][i] = Bytes::start(rows.sum[r * rows.n_parts], zero_points[i]);
      else
        acc[r][i] = Bytes::start(rows.sum[r * rows.n_parts]);
    }
  for (int64_t s = 0;;) {
    if constexpr (P > 1) fetch_step(ahead);
    add_step<Kind>(acc, lines, rows);
    for (int i = 0; i < P; ++i) lines[i] += Kind::kStepBytes;
    rows.q += Kind::kStep;
    if (++s == n_steps) break;
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < P; ++i) acc[r][i] = Bytes::widen(acc[r][i]);
  }
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) g[r][i] = fma(to_float(Bytes::sum(acc[r][i])), scale[i], g[r][i]);
  ++rows.sum;
}

template <int R, int P>
KVIK_INLINE void clear(F (&g)[R][P]) {
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) g[r][i] = zero();
}

// Registers are for the sums of parts: GCC would give some of them to these, which are needed once per block, and spill those.
template <int R, int P>
KVIK_INLINE void keep_in_memory(F (&f)[R][P]) {
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) __asm__("" : "+m"(f[r][i]));
}

// The end of a block of the rows.
template <int R, int P>
KVIK_INLINE void add_block(F (&f)[R][P], const F (&g)[R][P], BlockRows& rows) {
  for (int r = 0; r < R; ++r) {
    const F row_scale = bcast(rows.scale[r * rows.n_blocks]);
    for (int i = 0; i < P; ++i) f[r][i] = fma(g[r][i], row_scale, f[r][i]);
  }
  ++rows.scale;
}

// How tiles share the fetching of the panels that follow theirs.
struct AheadShares {
  int64_t row_bytes;   // for each row of a tile
  int64_t step_bytes;  // in each step of one
};

KVIK_INLINE AheadShares ahead_shares(const PackedWeights& m, const QuantizedRows& x, int tile_rows) {
  const int64_t row_lines = (kBlockPanels * m.layout.panel_bytes / 64 + x.n_rows - 1) / x.n_rows;
  return {row_lines * 64, (row_lines * tile_rows + x.n_steps - 1) / x.n_steps * 64};
}

// What a tile of n rows from `row` on fetches of the panels after those from `panel` on: all tiles together fetch all of it.
template <int P>
KVIK_INLINE Ahead ahead_of_tile(const PackedWeights& m, const AheadShares& shares, int64_t row, int n, int64_t panel) {
  const int64_t left = m.layout.n_panels - panel - P, n_panels = left < P ? left : P;
  const int64_t total = n_panels * m.layout.panel_bytes, first = row * shares.row_bytes, share = n * shares.row_bytes;
  if (P == 1 || first >= total) return {};
  const uint8_t* next = reinterpret_cast<const uint8_t*>(m.data) + (panel + P) * m.layout.panel_bytes;
  return {next + first, total - first < share ? total - first : share, shares.step_bytes};
}

// Places in the weights of some panels: of the next unit, and of all zero points.
template <int P>
struct WeightPlaces {
  const uint8_t *unit[P], *zero_points[P];
};

template <int P>
KVIK_INLINE WeightPlaces<P> places_of(const PackedWeights& m, int64_t panel) {
  const WeightLayout& layout = m.layout;
  WeightPlaces<P> places;
  for (int i = 0; i < P; ++i) {
    places.unit[i] = reinterpret_cast<const uint8_t*>(m.data) + (panel + i) * layout.panel_bytes;
    places.zero_points[i] = reinterpret_cast<const uint8_t*>(m.data) + layout.zero_points_offset + (panel + i) * layout.n_blocks * kLanes;
  }
  return places;
}

// Scales and zero points of a block, by its index among all and in its unit.
template <class Kind, int P>
KVIK_INLINE void load_block(const WeightPlaces<P>& places, int64_t block, int in_unit, F (&scale)[P], I (&zero_points)[P]) {
  for (int i = 0; i < P; ++i) {
    scale[i] = load(reinterpret_cast<const typename Kind::Scale*>(places.unit[i]) + in_unit * kLanes);
    zero_points[i] = Kind::kZeroPoints ? iload_u8(places.zero_points[i] + block * kLanes) : ibcast(0);
  }
}

// Blocks of the weights that are no smaller than those of the rows.
template <class Kind, int R, int P>
KVIK_INLINE void add_large_blocks(F (&f)[R][P], const WeightLayout& layout, WeightPlaces<P>& places, BlockRows& rows, Ahead& ahead,
                                  int64_t n_steps) {
  constexpr int kRowSteps = kRowBlock / Kind::kStep;
  const int64_t steps_per_block = layout.block / Kind::kStep;
  for (int64_t unit = 0; unit < layout.n_blocks; unit += Kind::kUnitBlocks) {
    const uint8_t* lines[P];
    for (int i = 0; i < P; ++i) lines[i] = places.unit[i] + 64;
    KVIK_UNROLL
    for (int b = 0; b < Kind::kUnitBlocks; ++b) {
      F scale[P];
      I zero_points[P];
      load_block<Kind>(places, unit + b, b, scale, zero_points);
      const int64_t steps = steps_per_block < n_steps ? steps_per_block : n_steps;  // padding beyond the rows' own is skipped
      for (int64_t s = 0; s < steps; s += kRowSteps) {
        F g[R][P];
        clear(g);
        add_part<Kind>(g, scale, zero_points, lines, rows, ahead, kRowSteps < steps - s ? kRowSteps : steps - s);
        add_block(f, g, rows);
      }
      for (int i = 0; i < P; ++i) lines[i] += (steps_per_block - steps) * Kind::kStepBytes;
      n_steps -= steps;
    }
    for (int i = 0; i < P; ++i) places.unit[i] = lines[i];
  }
}

// Smaller ones, of kBlock values: several to a block of the rows.
template <class Kind, int kBlock, int R, int P>
KVIK_INLINE void add_small_blocks(F (&f)[R][P], WeightPlaces<P>& places, BlockRows& rows, Ahead& ahead, int64_t n_parts) {
  constexpr int kBlockParts = kRowBlock / kBlock;
  for (int64_t first = 0; first < n_parts; first += kBlockParts) {
    const int64_t end = first + kBlockParts < n_parts ? first + kBlockParts : n_parts;
    F g[R][P];
    clear(g);
    for (int64_t part = first; part < end; part += Kind::kUnitBlocks) {
      const uint8_t* lines[P];
      for (int i = 0; i < P; ++i) lines[i] = places.unit[i] + 64;
      const auto add = [&](int b) __attribute__((always_inline)) {
        F scale[P];
        I zero_points[P];
        load_block<Kind>(places, part + b, b, scale, zero_points);
        add_part<Kind>(g, scale, zero_points, lines, rows, ahead, kBlock / Kind::kStep);
      };
      const bool has_two = Kind::kUnitBlocks == 2 && part + 1 < end;  // the last unit may lack the second block
      if constexpr (P > 1 || Kind::Bytes::kBits < 8) {
        add(0);
        if (has_two) add(1);
      } else {  // GCC would spill what it could do at the same time
        for (int b = 0; b <= (has_two ? 1 : 0); ++b) add(b);
      }
      for (int i = 0; i < P; ++i) places.unit[i] = lines[i];
    }
    add_block(f, g, rows);
    if constexpr (R * P >= 8) keep_in_memory(f);
  }
}

// kBlock: values of a block of the weights if they are fewer than those of a block of the rows, else 0.
template <class Kind, int kBlock, int R, int P>
KVIK_INLINE void block_tile(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, int64_t row, int64_t panel, Ahead ahead) {
  WeightPlaces<P> places = places_of<P>(m, panel);
  if constexpr (R > 1) prefetch_sums<R, P>(out, x.n_rows, row, panel * kLanes);
  BlockRows rows{x.q + row * x.n_steps * 32, x.scale + row * x.n_blocks, x.sum + row * x.n_parts, x.n_steps * 32, x.n_blocks, x.n_parts};
  F f[R][P];
  clear(f);
  if constexpr (kBlock > 0)
    add_small_blocks<Kind, kBlock>(f, places, rows, ahead, x.n_parts);
  else
    add_large_blocks<Kind>(f, m.layout, places, rows, ahead, x.n_steps);
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < P; ++i) store_sums(out, row + r, (panel + i) * kLanes, m.layout.n, f[r][i]);
}

template <class Kind, int kBlock>
void matmul_blocks(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, PanelRange range) {
  if (x.n_rows == 1) {
    for (int64_t p = range.begin; p < range.end; ++p) block_tile<Kind, kBlock, 1, 1>(m, x, out, 0, p, {});
    return;
  }
  // Several parts to a block of the rows are added up in registers, of which they take as many as the products.
  constexpr int kRows = kBlock > 0 ? kSmallBlockRows : kBlockRows;
  constexpr int kOneStream = Kind::Bytes::kBits == 8 ? 4 : 2;  // so few rows wait for the weights, which come fastest as one stream
  const AheadShares shares = ahead_shares(m, x, kRows);
  panel_groups<kBlockPanels>(range, x.n_rows > kOneStream, [&](auto panels, int64_t p) {
    even_row_tiles<kRows>(x.n_rows, [&](auto rows, int64_t row) {
      const Ahead ahead = ahead_of_tile<panels.value>(m, shares, row, rows.value, p);
      block_tile<Kind, kBlock, rows.value, panels.value>(m, x, out, row, p, ahead);
    });
  });
}

template <class Kind>
void matmul_kind(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, PanelRange range) {
  switch (m.layout.block) {
    case 32: return matmul_blocks<Kind, 32>(m, x, out, range);
    case 64: return matmul_blocks<Kind, 64>(m, x, out, range);
    default: return matmul_blocks<Kind, 0>(m, x, out, range);
  }
}

// Blocks of 16, which are rare: few tiles, to compile less.
template <class Kind>
void matmul_blocks16(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, PanelRange range) {
  for (int64_t p = range.begin; p < range.end; ++p)
    row_tiles<2>(x.n_rows, [&](auto rows, int64_t row) { block_tile<Kind, 16, rows.value, 1>(m, x, out, row, p, {}); });
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
