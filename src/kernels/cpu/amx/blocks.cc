#include "kernels/cpu/amx/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/amx/table.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/body/six_bits.h"
#include "kernels/cpu/body/tiles.h"

// Quantized rows by block-quantized weights, 16 rows by 16 columns at a time. A block of the rows is a tile product of 32 k, or one or two
// of 64; then, as in body/matmul_blocks.h, f = fma(float(sum) * row_scale, weight_scale, f).
namespace kvik::cpu::amx {
namespace {

constexpr int kStep = 32, kStepBytes = kStep * kLanes;
constexpr int kGroupPanels = 4;
constexpr int kChunkSteps = 32;                // of weights that are prepared at once
constexpr int64_t kRowBlockBytes = 512 << 10;  // of rows that stay in the second-level cache while panels pass
constexpr int kMostRowBlock = 256;
constexpr int kAhead = 4;  // blocks from a product to the reading of its sums: vectors cannot read a tile before it is in the cache

// Steps of one panel as the tile product takes them, once for all rows.
struct Chunk {
  int n_steps;                         // even, as in QuantizedRows
  int block_steps, n_blocks;           // of the rows; the last block may have fewer steps
  const int8_t* weights[kChunkSteps];  // of each block, kStepBytes for each of its steps
  alignas(64) float scales[kChunkSteps][kLanes];
  alignas(64) int8_t unpacked[kChunkSteps][kStepBytes];

  int steps_of(int block) const {
    const int left = n_steps - block * block_steps;
    return left < block_steps ? left : block_steps;
  }
};

// w - zero point of 6-bit weights, as bytes.
KVIK_INLINE void unpack_six(const uint8_t* lines, int8_t* to) {
  const I zero_point = _mm512_set1_epi8(32);
  for (int line = 0; line < 4; ++line) {
    const SixBits codes = six_bits(lines, line);
    _mm512_store_si512(to + line * 64, _mm512_sub_epi8(codes.low, zero_point));
    _mm512_store_si512(to + (line + 4) * 64, _mm512_sub_epi8(codes.high, zero_point));
  }
}

// The same of 4-bit weights.
KVIK_INLINE void unpack_four(const uint8_t* lines, I zero_points, int8_t* to) {
  const I nibble = _mm512_set1_epi8(15);
  for (int line = 0; line < 4; ++line) {
    const I both = _mm512_loadu_si512(lines + line * 64);
    _mm512_store_si512(to + line * 64, _mm512_sub_epi8(_mm512_and_si512(both, nibble), zero_points));
    _mm512_store_si512(to + (line + 4) * 64, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(both, 4), nibble), zero_points));
  }
}

// The zero points of a block of 4-bit weights, four times each.
I zero_points_of(const PackedWeights& m, int64_t panel, int64_t block) {
  const WeightLayout& layout = m.layout;
  if (!layout.has_zero_points) return _mm512_set1_epi8(8);
  const auto* points = reinterpret_cast<const uint8_t*>(m.data) + layout.zero_points_offset;
  return _mm512_mullo_epi32(iload_u8(points + (panel * layout.n_blocks + block) * kLanes), _mm512_set1_epi32(0x01010101));
}

// `ahead`: bytes from these weights to those that are needed next; they are fetched meanwhile. 0: none.
template <class Scale>
void prepare(const PackedWeights& m, int64_t panel, int64_t first_step, int64_t ahead, Chunk& chunk) {
  const WeightLayout& layout = m.layout;
  const auto* data = reinterpret_cast<const uint8_t*>(m.data);
  const int64_t steps_per_block = layout.block / kStep, unit_blocks = sizeof(Scale) == 2 ? 2 : 1;
  const int64_t step_bytes = layout.block_bytes / steps_per_block;
  for (int b = 0; b < chunk.n_blocks; ++b) {
    const int64_t step = first_step + b * chunk.block_steps, block = step / steps_per_block;
    const uint8_t* unit = data + panel * layout.panel_bytes + block / unit_blocks * (64 + unit_blocks * layout.block_bytes);
    store(chunk.scales[b], load(reinterpret_cast<const Scale*>(unit) + block % unit_blocks * kLanes));
    const uint8_t* lines = unit + 64 + block % unit_blocks * layout.block_bytes + step % steps_per_block * step_bytes;
    const int n_steps = chunk.steps_of(b);
    if (ahead > 0) {
      for (int64_t line = 0; line < n_steps * step_bytes; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(lines + ahead + line), _MM_HINT_T1);
    }
    if (layout.format == WeightFormat::kBlocks8) {
      chunk.weights[b] = reinterpret_cast<const int8_t*>(lines);
      continue;
    }
    int8_t* unpacked = chunk.unpacked[b * chunk.block_steps];
    chunk.weights[b] = unpacked;
    for (int s = 0; s < n_steps; ++s, lines += step_bytes, unpacked += kStepBytes) {
      if (layout.format == WeightFormat::kBlocks6)
        unpack_six(lines, unpacked);
      else
        unpack_four(lines, zero_points_of(m, panel, block), unpacked);
    }
  }
}

// One block: n_tiles products, which are 64 k apart.
struct Product {
  const int8_t* q;
  int64_t stride;
  const int8_t* weights;
  int n_tiles;
  int32_t* sums;
};

// Two sets of sums, so that a product runs while the sums of the one before it are scaled.
#define KVIK_TILE_PRODUCT(sums_tile, product)                                \
  do {                                                                       \
    _tile_zero(sums_tile);                                                   \
    for (int tile = 0; tile < (product).n_tiles; ++tile) {                   \
      _tile_loadd(KVIK_ROWS, (product).q + tile * 64, (product).stride);     \
      _tile_loadd(KVIK_WEIGHTS, (product).weights + tile * 64 * kLanes, 64); \
      _tile_dpbssd(sums_tile, KVIK_ROWS, KVIK_WEIGHTS);                      \
    }                                                                        \
    _tile_stored(sums_tile, (product).sums, 64);                             \
    order_memory();                                                          \
  } while (false)

KVIK_INLINE void even_product(const Product& product) { KVIK_TILE_PRODUCT(KVIK_SUMS0, product); }
KVIK_INLINE void odd_product(const Product& product) { KVIK_TILE_PRODUCT(KVIK_SUMS1, product); }

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

// f = fma(…) of one block, for all rows of the tile.
struct WholeTile {
  F f[kTileRows];
  KVIK_INLINE void load_sums(WholeTile& tile, const RowTile&, const float* sums) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) tile.f[r] = load(sums + r * kLanes);
  }
  KVIK_INLINE void scale(WholeTile& tile, const RowTile& rows, int64_t block, F weight_scale, const int32_t* sums) {
    const float* row_scale = rows.scale + block;
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
  KVIK_INLINE void scale(PartOfTile& tile, const RowTile& rows, int64_t block, F weight_scale, const int32_t* sums) {
    const float* row_scale = rows.scale + block;
    for (int r = 0; r < rows.n_rows; ++r, row_scale += rows.scale_stride)
      store(tile.f + r * kLanes, scaled(sums + r * kLanes, row_scale, weight_scale, load(tile.f + r * kLanes)));
  }
  KVIK_INLINE void store_sums_of(const PartOfTile&, const RowTile&, const float*) {}
};

// kOneStep: blocks of the rows have 32 k, so that their number is even.
template <class Sums, bool kOneStep>
void add_chunk(const Chunk& chunk, const RowTile& rows, float* sums) {
  Sums tile;
  Sums::load_sums(tile, rows, sums);
  alignas(64) int32_t products[kAhead][kTileRows * kLanes];
  const auto product = [&](int b) __attribute__((always_inline)) {
    const int8_t* q = rows.q + b * (kOneStep ? 1 : chunk.block_steps) * kStep;
    return Product{q, rows.q_stride, chunk.weights[b], kOneStep ? 1 : chunk.steps_of(b) / 2, products[b % kAhead]};
  };
  const auto multiply_two = [&](int b) __attribute__((always_inline)) {
    even_product(product(b));
    if (kOneStep || b + 1 < chunk.n_blocks) odd_product(product(b + 1));
  };
  order_memory();
  for (int b = 0; b < kAhead && b < chunk.n_blocks; b += 2) multiply_two(b);
  for (int b = 0; b < chunk.n_blocks; b += 2) {
    Sums::scale(tile, rows, b, load(chunk.scales[b]), products[b % kAhead]);
    if (kOneStep || b + 1 < chunk.n_blocks) Sums::scale(tile, rows, b + 1, load(chunk.scales[b + 1]), products[(b + 1) % kAhead]);
    if (b + kAhead < chunk.n_blocks) multiply_two(b + kAhead);
  }
  Sums::store_sums_of(tile, rows, sums);
}

using AddChunk = void (*)(const Chunk& chunk, const RowTile& rows, float* sums);

AddChunk add_chunk_of(bool whole_tile, bool one_step) {
  if (whole_tile) return one_step ? add_chunk<WholeTile, true> : add_chunk<WholeTile, false>;
  return one_step ? add_chunk<PartOfTile, true> : add_chunk<PartOfTile, false>;
}

// A block of rows by a few panels, a stretch of k at a time: 16 rows stay in the first-level cache while the panels stream past them.
// n_rows: a multiple of 16, or fewer than 16.
template <class Scale>
void multiply_row_block(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, int64_t first_row, int n_rows,
                        PanelRange range) {
  Chunk chunks[kGroupPanels];
  alignas(64) float sums[kMostRowBlock / kTileRows][kGroupPanels][kTileRows * kLanes];
  const int tile_rows = n_rows < kTileRows ? n_rows : kTileRows, n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  const auto block_steps = static_cast<int>(x.block_steps);
  const TileScope shapes(tile_rows, block_steps == 1 ? kStep : 2 * kStep, 0);
  const AddChunk add = add_chunk_of(tile_rows == kTileRows, block_steps == 1);
  const int64_t n_steps = x.n_steps;
  for (int64_t panel = range.begin; panel < range.end; panel += kGroupPanels) {
    const int n_panels = static_cast<int>(range.end - panel < kGroupPanels ? range.end - panel : kGroupPanels);
    memset(sums, 0, sizeof sums[0] * static_cast<size_t>(n_tiles));
    for (int64_t step = 0; step < n_steps; step += kChunkSteps) {
      for (int i = 0; i < n_panels; ++i) {
        chunks[i].n_steps = static_cast<int>(n_steps - step < kChunkSteps ? n_steps - step : kChunkSteps);
        chunks[i].block_steps = block_steps;
        chunks[i].n_blocks = (chunks[i].n_steps + block_steps - 1) / block_steps;
        prepare<Scale>(m, panel + i, step, panel + i + kGroupPanels < m.layout.n_panels ? kGroupPanels * m.layout.panel_bytes : 0,
                       chunks[i]);
      }
      for (int tile = 0; tile < n_tiles; ++tile) {
        const int64_t row = first_row + tile * kTileRows;
        const RowTile rows{x.q + (row * n_steps + step) * kStep, x.scale + row * x.n_blocks + step / block_steps, n_steps * kStep,
                           x.n_blocks, tile_rows};
        for (int i = 0; i < n_panels; ++i) add(chunks[i], rows, sums[tile][i]);
      }
    }
    for (int r = 0; r < n_rows; ++r)
      for (int i = 0; i < n_panels; ++i)
        store_sums(out, first_row + r, (panel + i) * kLanes, m.layout.n, load(sums[r / kTileRows][i] + r % kTileRows * kLanes));
  }
}

template <class Scale>
void multiply_blocks(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, PanelRange range) {
  const int64_t fit = kRowBlockBytes / (x.n_steps * kStep) / kTileRows * kTileRows;
  const int64_t block = fit < kTileRows ? kTileRows : fit > kMostRowBlock ? kMostRowBlock : fit;
  const int64_t whole = x.n_rows / kTileRows * kTileRows;
  for (int64_t row = 0; row < whole; row += block)
    multiply_row_block<Scale>(m, x, out, row, static_cast<int>(whole - row < block ? whole - row : block), range);
  if (whole < x.n_rows) multiply_row_block<Scale>(m, x, out, whole, static_cast<int>(x.n_rows - whole), range);
}

}  // namespace

void matmul_tiles(const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out, PanelRange range) {
  const WeightLayout& layout = weights.layout;
  // Differences of 8-bit weights and their zero points do not fit a byte.
  const bool fits = layout.block >= kStep && !(layout.format == WeightFormat::kBlocks8 && layout.has_zero_points);
  if (!fits || x.n_rows < kFewestTileRows) return avx512_prefetch::matmul_quantized(weights, x, out, range);
  if (layout.scales == ScaleFormat::kF16) return multiply_blocks<Half>(weights, x, out, range);
  multiply_blocks<float>(weights, x, out, range);
}

}  // namespace kvik::cpu::amx
