#include "kernels/cpu/amx/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/amx/table.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/body/six_bits.h"
#include "kernels/cpu/body/tiles.h"

// Quantized rows by block-quantized weights, 16 rows by 16 columns at a time. A part is a tile product of 32 k, or one or two of 64. Parts
// are scaled and added up as in body/matmul_blocks.h.
namespace kvik::cpu::amx {
namespace {

constexpr int kStep = 32, kStepBytes = kStep * kLanes;
constexpr int kGroupPanels = 4;
constexpr int kChunkSteps = 32;                // of weights that are prepared at once
constexpr int64_t kRowBlockBytes = 512 << 10;  // of rows that stay in the second-level cache while panels pass
constexpr int kMostRowBlock = 256;
constexpr int kRowSteps = kRowBlock / kStep;  // of a block of the rows
constexpr int kAhead = 4;  // parts from a product to the reading of its sums: vectors cannot read a tile before it is in the cache

// Steps of one panel as the tile product takes them, once for all rows.
struct Chunk {
  int n_steps;                         // even, as in QuantizedRows
  int part_steps, n_parts;             // the last part may have fewer steps
  const int8_t* weights[kChunkSteps];  // of each part, kStepBytes for each of its steps
  alignas(64) float scales[kChunkSteps][kLanes];
  alignas(64) int8_t unpacked[kChunkSteps][kStepBytes];

  int steps_of(int part) const {
    const int left = n_steps - part * part_steps;
    return left < part_steps ? left : part_steps;
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
  for (int part = 0; part < chunk.n_parts; ++part) {
    const int64_t step = first_step + part * chunk.part_steps, block = step / steps_per_block;
    const uint8_t* unit = data + panel * layout.panel_bytes + block / unit_blocks * (64 + unit_blocks * layout.block_bytes);
    store(chunk.scales[part], load(reinterpret_cast<const Scale*>(unit) + block % unit_blocks * kLanes));
    const uint8_t* lines = unit + 64 + block % unit_blocks * layout.block_bytes + step % steps_per_block * step_bytes;
    const int n_steps = chunk.steps_of(part);
    if (ahead > 0) {
      for (int64_t line = 0; line < n_steps * step_bytes; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(lines + ahead + line), _MM_HINT_T1);
    }
    if (layout.format == WeightFormat::kBlocks8) {
      chunk.weights[part] = reinterpret_cast<const int8_t*>(lines);
      continue;
    }
    int8_t* unpacked = chunk.unpacked[part * chunk.part_steps];
    chunk.weights[part] = unpacked;
    for (int s = 0; s < n_steps; ++s, lines += step_bytes, unpacked += kStepBytes) {
      if (layout.format == WeightFormat::kBlocks6)
        unpack_six(lines, unpacked);
      else
        unpack_four(lines, zero_points_of(m, panel, block), unpacked);
    }
  }
}

// One part: n_tiles products, which are 64 k apart.
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

// The sums of a tile are f in memory and g, the sums of the block of the rows that is being added up, in registers.
struct WholeTile {
  F g[kTileRows];
  KVIK_INLINE void clear(WholeTile& tile) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) tile.g[r] = zero();
  }
  KVIK_INLINE void add_part(WholeTile& tile, const RowTile&, F weight_scale, const int32_t* sums) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) tile.g[r] = fma(to_float(iload(sums + r * kLanes)), weight_scale, tile.g[r]);
  }
  KVIK_INLINE void add_block(WholeTile& tile, const RowTile& rows, int64_t block, float* f) {
    const float* row_scale = rows.scale + block;
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r, row_scale += rows.scale_stride)
      store(f + r * kLanes, fma(tile.g[r], bcast(*row_scale), load(f + r * kLanes)));
    clear(tile);
  }
};

// The same with fewer rows; g is in memory too.
struct PartOfTile {
  alignas(64) float g[kTileRows * kLanes];
  KVIK_INLINE void clear(PartOfTile& tile) { memset(tile.g, 0, sizeof tile.g); }
  KVIK_INLINE void add_part(PartOfTile& tile, const RowTile& rows, F weight_scale, const int32_t* sums) {
    for (int r = 0; r < rows.n_rows; ++r)
      store(tile.g + r * kLanes, fma(to_float(iload(sums + r * kLanes)), weight_scale, load(tile.g + r * kLanes)));
  }
  KVIK_INLINE void add_block(PartOfTile& tile, const RowTile& rows, int64_t block, float* f) {
    const float* row_scale = rows.scale + block;
    for (int r = 0; r < rows.n_rows; ++r, row_scale += rows.scale_stride)
      store(f + r * kLanes, fma(load(tile.g + r * kLanes), bcast(*row_scale), load(f + r * kLanes)));
    clear(tile);
  }
};

// If there is one part to a block of the rows, f stays in registers.
struct WholeTileOfBlocks {
  F f[kTileRows];
  KVIK_INLINE void load_sums(WholeTileOfBlocks& tile, const float* sums) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) tile.f[r] = load(sums + r * kLanes);
  }
  KVIK_INLINE F scaled(const int32_t* sums, const float* row_scale, F weight_scale, F f) {
    return fma(fma(to_float(iload(sums)), weight_scale, zero()), bcast(*row_scale), f);
  }
  // Four rows from one pointer: few enough for all of them to stay in registers.
  KVIK_INLINE void scale_four(const int32_t* sums, const float* row_scale, int64_t stride, F weight_scale, F* f) {
    f[0] = scaled(sums, row_scale, weight_scale, f[0]);
    f[1] = scaled(sums + kLanes, row_scale + stride, weight_scale, f[1]);
    f[2] = scaled(sums + 2 * kLanes, row_scale + 2 * stride, weight_scale, f[2]);
    f[3] = scaled(sums + 3 * kLanes, row_scale + 3 * stride, weight_scale, f[3]);
  }
  KVIK_INLINE void scale(WholeTileOfBlocks& tile, const RowTile& rows, int64_t block, F weight_scale, const int32_t* sums) {
    const float* row_scale = rows.scale + block;
#pragma GCC unroll 4
    for (int r = 0; r < kTileRows; r += 4)
      scale_four(sums + r * kLanes, row_scale + r * rows.scale_stride, rows.scale_stride, weight_scale, tile.f + r);
  }
  KVIK_INLINE void store_sums_of(const WholeTileOfBlocks& tile, float* sums) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) store(sums + r * kLanes, tile.f[r]);
  }
};

// Multiplies the parts of a chunk, two at a time and kAhead ahead of scaled(part, sums).
template <int kPartSteps, class Scaled>
KVIK_INLINE void multiply_parts(const Chunk& chunk, const RowTile& rows, Scaled scaled) {
  alignas(64) int32_t products[kAhead][kTileRows * kLanes];
  const auto product = [&](int part) __attribute__((always_inline)) {
    return Product{rows.q + part * kPartSteps * kStep, rows.q_stride, chunk.weights[part], kPartSteps == 1 ? 1 : chunk.steps_of(part) / 2,
                   products[part % kAhead]};
  };
  const auto multiply_two = [&](int part) __attribute__((always_inline)) {
    even_product(product(part));
    if (kPartSteps == 1 || part + 1 < chunk.n_parts) odd_product(product(part + 1));  // n_steps is even
  };
  order_memory();
  for (int part = 0; part < kAhead && part < chunk.n_parts; part += 2) multiply_two(part);
  for (int part = 0; part < chunk.n_parts; part += 2) {
    scaled(part, products[part % kAhead]);
    if (kPartSteps == 1 || part + 1 < chunk.n_parts) scaled(part + 1, products[(part + 1) % kAhead]);
    if (part + kAhead < chunk.n_parts) multiply_two(part + kAhead);
  }
}

template <class Tile, int kPartSteps>
void add_chunk(const Chunk& chunk, const RowTile& rows, float* sums) {
  constexpr int kParts = kRowSteps / kPartSteps;  // of a block of the rows
  Tile tile;
  Tile::clear(tile);
  multiply_parts<kPartSteps>(
      chunk, rows, [&](int part, const int32_t* products) __attribute__((always_inline)) {
        Tile::add_part(tile, rows, load(chunk.scales[part]), products);
        if ((part + 1) % kParts == 0 || part + 1 == chunk.n_parts) Tile::add_block(tile, rows, part / kParts, sums);
      });
}

void add_chunk_of_blocks(const Chunk& chunk, const RowTile& rows, float* sums) {
  WholeTileOfBlocks tile;
  WholeTileOfBlocks::load_sums(tile, sums);
  multiply_parts<kRowSteps>(
      chunk, rows, [&](int part, const int32_t* products) __attribute__((always_inline)) {
        WholeTileOfBlocks::scale(tile, rows, part, load(chunk.scales[part]), products);
      });
  WholeTileOfBlocks::store_sums_of(tile, sums);
}

using AddChunk = void (*)(const Chunk& chunk, const RowTile& rows, float* sums);

AddChunk add_chunk_of(bool whole_tile, int part_steps) {
  switch (part_steps) {
    case 1: return whole_tile ? add_chunk<WholeTile, 1> : add_chunk<PartOfTile, 1>;
    case 2: return whole_tile ? add_chunk<WholeTile, 2> : add_chunk<PartOfTile, 2>;
    default: return whole_tile ? add_chunk_of_blocks : add_chunk<PartOfTile, kRowSteps>;
  }
}

// A block of rows by a few panels, a stretch of k at a time: 16 rows stay in the first-level cache while the panels stream past them.
// n_rows: a multiple of 16, or fewer than 16.
template <class Scale>
void multiply_row_block(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, int64_t first_row, int n_rows,
                        PanelRange range) {
  Chunk chunks[kGroupPanels];
  alignas(64) float sums[kMostRowBlock / kTileRows][kGroupPanels][kTileRows * kLanes];
  const int tile_rows = n_rows < kTileRows ? n_rows : kTileRows, n_tiles = (n_rows + kTileRows - 1) / kTileRows;
  const auto part_steps = static_cast<int>(x.part) / kStep;
  const TileScope shapes(tile_rows, part_steps == 1 ? kStep : 2 * kStep, 0);
  const AddChunk add = add_chunk_of(tile_rows == kTileRows, part_steps);
  const int64_t n_steps = x.n_steps;
  for (int64_t panel = range.begin; panel < range.end; panel += kGroupPanels) {
    const int n_panels = static_cast<int>(range.end - panel < kGroupPanels ? range.end - panel : kGroupPanels);
    memset(sums, 0, sizeof sums[0] * static_cast<size_t>(n_tiles));
    for (int64_t step = 0; step < n_steps; step += kChunkSteps) {
      for (int i = 0; i < n_panels; ++i) {
        chunks[i].n_steps = static_cast<int>(n_steps - step < kChunkSteps ? n_steps - step : kChunkSteps);
        chunks[i].part_steps = part_steps;
        chunks[i].n_parts = (chunks[i].n_steps + part_steps - 1) / part_steps;
        prepare<Scale>(m, panel + i, step, panel + i + kGroupPanels < m.layout.n_panels ? kGroupPanels * m.layout.panel_bytes : 0,
                       chunks[i]);
      }
      for (int tile = 0; tile < n_tiles; ++tile) {
        const int64_t row = first_row + tile * kTileRows;
        const RowTile rows{x.q + (row * n_steps + step) * kStep, x.scale + row * x.n_blocks + step / kRowSteps, n_steps * kStep, x.n_blocks,
                           tile_rows};
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
