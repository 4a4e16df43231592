#include "kernels/cpu/amx/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/amx/table.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/body/matmul_blocks.h"

// Quantised rows by block-quantised weights, 16 rows by 16 columns at a time. A step of 32 k is one tile product; then, as in
// body/matmul_blocks.h, f = fma(float(sum) * row_scale, weight_scale, f).
namespace kvik::cpu::amx {
namespace {

constexpr int kStep = 32, kStepBytes = kStep * kLanes;
constexpr int kGroupPanels = 4;
constexpr int kChunkSteps = 32;                // of weights that are prepared at once
constexpr int64_t kRowBlockBytes = 512 << 10;  // of rows that stay in the second-level cache while panels pass
constexpr int kMostRowBlock = 256;
constexpr int kAhead = 4;  // steps from a product to the reading of its sums: vectors cannot read a tile before it is in the cache

// Steps of one panel as the tile product takes them, once for all rows.
struct Chunk {
  int n_steps;                         // even, as in QuantisedRows
  const int8_t* weights[kChunkSteps];  // kStepBytes each
  alignas(64) float scales[kChunkSteps][kLanes];
  alignas(64) int8_t unpacked[kChunkSteps][kStepBytes];
};

// w - zero point of 4-bit weights, as bytes.
KVIK_INLINE void unpack_step(const uint8_t* lines, I zero_points, int8_t* to) {
  const I nibble = _mm512_set1_epi8(15);
  for (int line = 0; line < 4; ++line) {
    const I both = _mm512_loadu_si512(lines + line * 64);
    _mm512_store_si512(to + line * 64, _mm512_sub_epi8(_mm512_and_si512(both, nibble), zero_points));
    _mm512_store_si512(to + (line + 4) * 64, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(both, 4), nibble), zero_points));
  }
}

// `ahead`: bytes from these weights to those that are needed next; they are fetched meanwhile. 0: none.
template <class Scale>
void prepare(const PackedWeights& m, int64_t panel, int64_t first_step, int64_t ahead, Chunk& chunk) {
  const WeightLayout& layout = m.layout;
  const auto* data = reinterpret_cast<const uint8_t*>(m.data);
  const bool four_bits = layout.format == WeightFormat::kBlocks4;
  const int64_t steps_per_block = layout.block / kStep, unit_blocks = sizeof(Scale) == 2 ? 2 : 1;
  const int64_t step_bytes = four_bits ? kStepBytes / 2 : kStepBytes;
  for (int i = 0; i < chunk.n_steps; ++i) {
    const int64_t step = first_step + i, block = step / steps_per_block;
    const uint8_t* unit = data + panel * layout.panel_bytes + block / unit_blocks * (64 + unit_blocks * layout.block_bytes);
    store(chunk.scales[i], load(reinterpret_cast<const Scale*>(unit) + block % unit_blocks * kLanes));
    const uint8_t* lines = unit + 64 + block % unit_blocks * layout.block_bytes + step % steps_per_block * step_bytes;
    if (ahead > 0) {
      for (int64_t line = 0; line < step_bytes; line += 64) _mm_prefetch(reinterpret_cast<const char*>(lines + ahead + line), _MM_HINT_T1);
    }
    if (!four_bits) {
      chunk.weights[i] = reinterpret_cast<const int8_t*>(lines);
      continue;
    }
    I zero_points = _mm512_set1_epi8(8);
    if (layout.has_zero_points) {
      const I wide = iload_u8(data + layout.zero_points_offset + (panel * layout.n_blocks + block) * kLanes);
      zero_points = _mm512_mullo_epi32(wide, _mm512_set1_epi32(0x01010101));
    }
    unpack_step(lines, zero_points, chunk.unpacked[i]);
    chunk.weights[i] = chunk.unpacked[i];
  }
}

// Two sets of sums, so that a product runs while the sums of the one before it are scaled.
#define KVIK_TILE_PRODUCT(sums_tile, q, stride, weights, sums) \
  do {                                                         \
    _tile_zero(sums_tile);                                     \
    _tile_loadd(KVIK_ROWS, q, stride);                         \
    _tile_loadd(KVIK_WEIGHTS, weights, 64);                    \
    _tile_dpbssd(sums_tile, KVIK_ROWS, KVIK_WEIGHTS);          \
    _tile_stored(sums_tile, sums, 64);                         \
    order_memory();                                            \
  } while (false)

KVIK_INLINE void even_product(const int8_t* q, int64_t stride, const int8_t* weights, int32_t* sums) {
  KVIK_TILE_PRODUCT(KVIK_SUMS0, q, stride, weights, sums);
}
KVIK_INLINE void odd_product(const int8_t* q, int64_t stride, const int8_t* weights, int32_t* sums) {
  KVIK_TILE_PRODUCT(KVIK_SUMS1, q, stride, weights, sums);
}

struct RowTile {
  const int8_t* q;
  const float* scale;
  int64_t q_stride, scale_stride;
  int n_rows;
};

KVIK_INLINE F scaled(const int32_t* sums, const float* row_scale, F weight_scale, F f) {
  return fma(mul(to_float(iload(sums)), bcast(*row_scale)), weight_scale, f);
}

// Four rows from one pointer: few enough for all of them to stay in registers.
KVIK_INLINE void scale_four(const int32_t* sums, const float* row_scale, int64_t stride, F weight_scale, F* f) {
  f[0] = scaled(sums, row_scale, weight_scale, f[0]);
  f[1] = scaled(sums + kLanes, row_scale + stride, weight_scale, f[1]);
  f[2] = scaled(sums + 2 * kLanes, row_scale + 2 * stride, weight_scale, f[2]);
  f[3] = scaled(sums + 3 * kLanes, row_scale + 3 * stride, weight_scale, f[3]);
}

// f = fma(…) of one step, for all rows of the tile.
struct WholeTile {
  F f[kTileRows];
  KVIK_INLINE void load_sums(WholeTile& tile, const RowTile&, const float* sums) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) tile.f[r] = load(sums + r * kLanes);
  }
  KVIK_INLINE void scale(WholeTile& tile, const RowTile& rows, int64_t step, F weight_scale, const int32_t* sums) {
    const float* row_scale = rows.scale + step;
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; r += 4)
      scale_four(sums + r * kLanes, row_scale + r * rows.scale_stride, rows.scale_stride, weight_scale, tile.f + r);
  }
  KVIK_INLINE void store_sums_of(const WholeTile& tile, const RowTile&, float* sums) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) store(sums + r * kLanes, tile.f[r]);
  }
};

// The same with fewer rows; f stays in memory.
struct PartOfTile {
  float* f;
  KVIK_INLINE void load_sums(PartOfTile& tile, const RowTile&, float* sums) { tile.f = sums; }
  KVIK_INLINE void scale(PartOfTile& tile, const RowTile& rows, int64_t step, F weight_scale, const int32_t* sums) {
    const float* row_scale = rows.scale + step;
    for (int r = 0; r < rows.n_rows; ++r, row_scale += rows.scale_stride)
      store(tile.f + r * kLanes, scaled(sums + r * kLanes, row_scale, weight_scale, load(tile.f + r * kLanes)));
  }
  KVIK_INLINE void store_sums_of(const PartOfTile&, const RowTile&, const float*) {}
};

template <class Sums>
void add_chunk(const Chunk& chunk, const RowTile& rows, float* sums) {
  Sums tile;
  Sums::load_sums(tile, rows, sums);
  alignas(64) int32_t products[kAhead][kTileRows * kLanes];
  const auto multiply_two = [&](int s) __attribute__((always_inline)) {
    even_product(rows.q + s * kStep, rows.q_stride, chunk.weights[s], products[s % kAhead]);
    odd_product(rows.q + (s + 1) * kStep, rows.q_stride, chunk.weights[s + 1], products[(s + 1) % kAhead]);
  };
  order_memory();
  for (int s = 0; s < kAhead && s < chunk.n_steps; s += 2) multiply_two(s);
  for (int s = 0; s < chunk.n_steps; s += 2) {
    Sums::scale(tile, rows, s, load(chunk.scales[s]), products[s % kAhead]);
    Sums::scale(tile, rows, s + 1, load(chunk.scales[s + 1]), products[(s + 1) % kAhead]);
    if (s + kAhead < chunk.n_steps) multiply_two(s + kAhead);
  }
  Sums::store_sums_of(tile, rows, sums);
}

// A block of rows by a few panels, a stretch of k at a time: 16 rows stay in the first-level cache while the panels stream past them.
// n_rows: a multiple of 16, or fewer than 16.
template <class Scale>
void multiply_row_block(const PackedWeights& m, const QuantisedRows& x, const MatmulOut& out, int64_t first_row, int n_rows,
                        PanelRange range) {
  Chunk chunks[kGroupPanels];
  alignas(64) float sums[kMostRowBlock / kTileRows][kGroupPanels][kTileRows * kLanes];
  const int tile_rows = n_rows < kTileRows ? n_rows : kTileRows, n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  const TileScope shapes(tile_rows, kStep, 0);
  const auto add = tile_rows == kTileRows ? add_chunk<WholeTile> : add_chunk<PartOfTile>;
  const int64_t n_steps = x.n_steps;
  for (int64_t panel = range.begin; panel < range.end; panel += kGroupPanels) {
    const int n_panels = static_cast<int>(range.end - panel < kGroupPanels ? range.end - panel : kGroupPanels);
    memset(sums, 0, sizeof sums[0] * static_cast<size_t>(n_tiles));
    for (int64_t step = 0; step < n_steps; step += kChunkSteps) {
      for (int i = 0; i < n_panels; ++i) {
        chunks[i].n_steps = static_cast<int>(n_steps - step < kChunkSteps ? n_steps - step : kChunkSteps);
        prepare<Scale>(m, panel + i, step, panel + i + kGroupPanels < range.end ? kGroupPanels * m.layout.panel_bytes : 0, chunks[i]);
      }
      for (int tile = 0; tile < n_tiles; ++tile) {
        const int64_t at = (first_row + tile * kTileRows) * n_steps + step;
        const RowTile rows{x.q + at * kStep, x.scale + at, n_steps * kStep, n_steps, tile_rows};
        for (int i = 0; i < n_panels; ++i) add(chunks[i], rows, sums[tile][i]);
      }
    }
    for (int r = 0; r < n_rows; ++r)
      for (int i = 0; i < n_panels; ++i)
        store_sums(out, first_row + r, (panel + i) * kLanes, m.layout.n, load(sums[r / kTileRows][i] + r % kTileRows * kLanes));
  }
}

template <class Scale>
void multiply_blocks(const PackedWeights& m, const QuantisedRows& x, const MatmulOut& out, PanelRange range) {
  const int64_t fit = kRowBlockBytes / (x.n_steps * kStep) / kTileRows * kTileRows;
  const int64_t block = fit < kTileRows ? kTileRows : fit > kMostRowBlock ? kMostRowBlock : fit;
  const int64_t whole = x.n_rows / kTileRows * kTileRows;
  for (int64_t row = 0; row < whole; row += block)
    multiply_row_block<Scale>(m, x, out, row, static_cast<int>(whole - row < block ? whole - row : block), range);
  if (whole < x.n_rows) multiply_row_block<Scale>(m, x, out, whole, static_cast<int>(x.n_rows - whole), range);
}

}  // namespace

void matmul_tiles(const PackedWeights& weights, const QuantisedRows& x, const MatmulOut& out, PanelRange range) {
  const WeightLayout& layout = weights.layout;
  // Differences of 8-bit weights and their zero points do not fit a byte.
  const bool fits = layout.block >= kStep && !(layout.format == WeightFormat::kBlocks8 && layout.has_zero_points);
  if (!fits || x.n_rows < kFewestTileRows) return matmul_quantised(weights, x, out, range);
  if (layout.scales == ScaleFormat::kF16) return multiply_blocks<Half>(weights, x, out, range);
  multiply_blocks<float>(weights, x, out, range);
}

}  // namespace kvik::cpu::amx
