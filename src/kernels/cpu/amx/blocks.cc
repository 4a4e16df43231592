#include "kernels/cpu/amx/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/amx/chunk.h"
#include "kernels/cpu/amx/table.h"
#include "kernels/cpu/body/tiles.h"

// Quantized rows by block-quantized weights, 16 rows by two panels of 16 columns at a time. A part is a tile product of 32 k, or one or two
// of 64. Parts are scaled and added up as in body/matmul_blocks.h.
namespace kvik::cpu::amx {
namespace {

constexpr int kGroupParts = 4;                 // whose sums wait in memory: vectors cannot read a tile before it is in the cache
constexpr int64_t kRowBlockBytes = 768 << 10;  // of rows that stay in the second-level cache while panels pass
constexpr int kMostRowBlock = 512;

using PartSums = int32_t[kTileRows * kLanes];
using GroupSums = PartSums[kGroupParts];

struct RowTile {
  const int8_t* q;
  const float* scale;
  int64_t q_stride, scale_stride;
  int n_rows;
};

// One part: products 64 k apart (or one of 32). Both panels share the tile of the rows.
template <int P>
KVIK_INLINE void multiply_part(const Chunk* chunks, int part, int n_tiles, const int8_t* q, int64_t stride, GroupSums* sums) {
  _tile_zero(KVIK_SUMS0);
  if constexpr (P == 2) _tile_zero(KVIK_SUMS1);
  for (int tile = 0; tile < n_tiles; ++tile) {
    _tile_loadd(KVIK_ROWS, q + tile * 64, stride);
    _tile_loadd(KVIK_WEIGHTS, chunks[0].weights[part] + tile * 64 * kLanes, 64);
    _tile_dpbssd(KVIK_SUMS0, KVIK_ROWS, KVIK_WEIGHTS);
    if constexpr (P == 2) {
      _tile_loadd(KVIK_WEIGHTS, chunks[1].weights[part] + tile * 64 * kLanes, 64);
      _tile_dpbssd(KVIK_SUMS1, KVIK_ROWS, KVIK_WEIGHTS);
    }
  }
  _tile_stored(KVIK_SUMS0, sums[0][part % kGroupParts], 64);
  if constexpr (P == 2) _tile_stored(KVIK_SUMS1, sums[1][part % kGroupParts], 64);
}

// Where sums come from and go to; rows of zeros have a stride of 0.
struct SumRows {
  const float* from;
  int64_t from_stride, from_panel;
  float* to;
  int64_t to_stride, to_panel;
};

// Adds kBlocks blocks of the rows, each of kBlockParts parts, of P panels.
template <int kBlockParts, int kBlocks, int P>
KVIK_INLINE void add_blocks(const GroupSums* sums, const Chunk* chunks, int part, const float* row_scale, const RowTile& rows,
                            const SumRows& f) {
  constexpr int kParts = kBlockParts * kBlocks;
  F scale[P][kParts];
  for (int i = 0; i < P; ++i)
    for (int p = 0; p < kParts; ++p) scale[i][p] = load(chunks[i].scales[part + p]);
  const int32_t* sum = sums[0][part % kGroupParts];
  const float* from = f.from;
  float* to = f.to;
  const int64_t stride = rows.scale_stride, from_stride = f.from_stride, to_stride = f.to_stride, from_panel = f.from_panel,
                to_panel = f.to_panel;
  for (int r = rows.n_rows; r > 0; --r, row_scale += stride, sum += kLanes, from += from_stride, to += to_stride) {
    F total[P];
    for (int i = 0; i < P; ++i) total[i] = load(from + i * from_panel);
    KVIK_UNROLL
    for (int b = 0; b < kBlocks; ++b) {
      const F of_row = bcast(row_scale[b]);
      for (int i = 0; i < P; ++i) {
        F g = zero();
        KVIK_UNROLL
        for (int p = b * kBlockParts; p < (b + 1) * kBlockParts; ++p)
          g = fma(to_float(iload(sum + (i * kGroupParts + p) * kTileRows * kLanes)), scale[i][p], g);
        total[i] = fma(g, of_row, total[i]);
      }
    }
    for (int i = 0; i < P; ++i) store(to + i * to_panel, total[i]);
  }
}

// The n parts of a group; fewer than usual at the end of k.
template <int kBlockParts, int P>
KVIK_INLINE void add_group(const GroupSums* sums, const Chunk* chunks, int part, int n, const RowTile& rows, const SumRows& f) {
  constexpr int kRest = kBlockParts == 1 ? 1 : kBlockParts / 2;  // parts of an incomplete block
  const float* row_scale = rows.scale + part / kBlockParts;
  if (n == kGroupParts) return add_blocks<kBlockParts, kGroupParts / kBlockParts, P>(sums, chunks, part, row_scale, rows, f);
  if constexpr (kBlockParts == 1) {
    if (n == 3) return add_blocks<1, 3, P>(sums, chunks, part, row_scale, rows, f);
    if (n == 2) return add_blocks<1, 2, P>(sums, chunks, part, row_scale, rows, f);
  }
  if constexpr (kBlockParts == 2) {
    if (n >= 2) add_blocks<2, 1, P>(sums, chunks, part, row_scale, rows, f);
    if (n == 3)
      add_blocks<kRest, 1, P>(sums, chunks, part + 2, row_scale + 1, rows, {f.to, f.to_stride, f.to_panel, f.to, f.to_stride, f.to_panel});
    if (n >= 2) return;
  }
  add_blocks<kRest, 1, P>(sums, chunks, part, row_scale, rows, f);
}

// A tile of rows by a chunk of P panels.
template <int kPartSteps, int P>
void add_chunk(const Chunk* chunks, const RowTile& rows, SumRows f) {
  alignas(64) GroupSums sums[P];
  const Chunk& first = chunks[0];
  for (int part = 0; part < first.n_parts; part += kGroupParts) {
    const int n = first.n_parts - part < kGroupParts ? first.n_parts - part : kGroupParts;
    order_memory();
    for (int i = 0; i < n; ++i) {
      const int n_tiles = kPartSteps == 1 ? 1 : first.steps_of(part + i) / 2;
      multiply_part<P>(chunks, part + i, n_tiles, rows.q + (part + i) * kPartSteps * kStep, rows.q_stride, sums);
    }
    order_memory();
    add_group<kRowSteps / kPartSteps, P>(sums, chunks, part, n, rows, f);
    f.from = f.to, f.from_stride = f.to_stride, f.from_panel = f.to_panel;
  }
}

using AddChunk = void (*)(const Chunk* chunks, const RowTile& rows, SumRows f);

template <int P>
AddChunk add_chunk_of(int part_steps) {
  switch (part_steps) {
    case 1: return add_chunk<1, P>;
    case 2: return add_chunk<2, P>;
    default: return add_chunk<kRowSteps, P>;
  }
}

// Rows [first, first + n): a multiple of 16, or fewer than 16.
struct RowRange {
  int64_t first;
  int n, tile_rows;
  int n_tiles() const { return (n + kTileRows - 1) / kTileRows; }
};

using TileSums = float[kPanels][kTileRows * kLanes];
alignas(64) constexpr float kZeros[kPanels * kLanes] = {};

// The sums of a few panels, a stretch of k at a time: their weights stay in the first-level cache while the rows pass.
class PanelSums {
 public:
  PanelSums(const QuantizedRows& x, const MatmulOut& out, const RowRange& range, TileSums* sums)
      : x_(x), out_(out), range_(range), sums_(sums) {}

  template <class Scale>
  void add(const PackedWeights& m, int64_t panel, int n_panels) {
    Chunk chunks[kPanels];
    const auto part_steps = static_cast<int>(x_.part) / kStep;
    const AddChunk multiply = n_panels == kPanels ? add_chunk_of<kPanels>(part_steps) : add_chunk_of<1>(part_steps);
    // Whole panels without a bias are written where they belong.
    const bool direct = out_.bias == nullptr && (panel + n_panels) * kLanes <= m.layout.n;
    for (int64_t step = 0; step < x_.n_steps; step += kChunkSteps) {
      const bool last = step + kChunkSteps >= x_.n_steps;
      for (int i = 0; i < n_panels; ++i) {
        chunks[i].n_steps = static_cast<int>(last ? x_.n_steps - step : kChunkSteps);
        chunks[i].part_steps = part_steps;
        prepare<Scale>(m, panel + i, step, chunks[i]);
      }
      for (int tile = 0; tile < range_.n_tiles(); ++tile)
        multiply(chunks, rows_at(tile, step), places(tile, panel, step == 0, last && direct));
    }
    if (!direct) write(m.layout.n, panel, n_panels);
  }

 private:
  RowTile rows_at(int tile, int64_t step) const {
    const int64_t row = range_.first + tile * kTileRows;
    return {x_.q + (row * x_.n_steps + step) * kStep, x_.scale + row * x_.n_blocks + step / kRowSteps, x_.n_steps * kStep, x_.n_blocks,
            range_.tile_rows};
  }
  SumRows places(int tile, int64_t panel, bool first, bool last) const {
    float* kept = sums_[tile][0];
    float* written = out_.data + (range_.first + tile * kTileRows) * out_.stride + panel * kLanes;
    SumRows f{kept, kLanes, kTileRows * kLanes, kept, kLanes, kTileRows * kLanes};
    if (first) f.from = kZeros, f.from_stride = 0, f.from_panel = kLanes;
    if (last) f.to = written, f.to_stride = out_.stride, f.to_panel = kLanes;
    return f;
  }
  void write(int64_t n_columns, int64_t panel, int n_panels) const {
    for (int r = 0; r < range_.n; ++r)
      for (int i = 0; i < n_panels; ++i)
        store_sums(out_, range_.first + r, (panel + i) * kLanes, n_columns, load(sums_[r / kTileRows][i] + r % kTileRows * kLanes));
  }

  const QuantizedRows& x_;
  const MatmulOut& out_;
  const RowRange& range_;
  TileSums* sums_;
};

template <class Scale>
void multiply_row_range(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, const RowRange& range, PanelRange panels) {
  alignas(64) TileSums memory[kMostRowBlock / kTileRows];
  const TileScope shapes(range.tile_rows, x.part == kStep ? kStep : 2 * kStep, 0);
  PanelSums sums(x, out, range, memory);
  for (int64_t panel = panels.begin; panel < panels.end; panel += kPanels)
    sums.add<Scale>(m, panel, static_cast<int>(panels.end - panel < kPanels ? panels.end - panel : kPanels));
}

template <class Scale>
void multiply_blocks(const PackedWeights& m, const QuantizedRows& x, const MatmulOut& out, PanelRange panels) {
  const int64_t fit = kRowBlockBytes / (x.n_steps * kStep) / kTileRows * kTileRows;
  const int64_t block = fit < kTileRows ? kTileRows : fit > kMostRowBlock ? kMostRowBlock : fit;
  const int64_t whole = x.n_rows / kTileRows * kTileRows;
  for (int64_t row = 0; row < whole; row += block) {
    const int64_t n = whole - row < block ? whole - row : block;
    multiply_row_range<Scale>(m, x, out, {row, static_cast<int>(n), kTileRows}, panels);
  }
  const auto rest = static_cast<int>(x.n_rows - whole);
  if (rest > 0) multiply_row_range<Scale>(m, x, out, {whole, rest, rest}, panels);
}

}  // namespace

void matmul_tiles(const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out, PanelRange range) {
  const WeightLayout& layout = weights.layout;
  // Differences of 8-bit weights and their zero points do not fit a byte.
  const bool fits = layout.block >= kStep && !(layout.format == WeightFormat::kBlocks8 && layout.has_zero_points);
  const int64_t fewest = layout.format == WeightFormat::kBlocks4 && x.part == kStep ? kFewestFourBitRows : kFewestTileRows;
  if (!fits || x.n_rows < fewest) return avx512_prefetch::matmul_quantized(weights, x, out, range);
  if (layout.scales == ScaleFormat::kF16) return multiply_blocks<Half>(weights, x, out, range);
  multiply_blocks<float>(weights, x, out, range);
}

}  // namespace kvik::cpu::amx
