#include "kernels/cpu/amx/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/amx/table.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/body/tiles.h"

// Rows of bytes with one scale each by weights with one scale per column; see body/matmul_bytes.h.
namespace kvik::cpu::amx {
namespace {

constexpr int64_t kTileK = 64;

// The products of up to 16 rows with one panel.
void sum_panel(const int8_t* q, int64_t stride, const uint8_t* lines, int64_t k, int32_t* sums) {
  order_memory();
  _tile_zero(KVIK_SUMS0);
  int64_t at = 0;
  for (; at + kTileK <= k; at += kTileK) {
    _tile_loadd(KVIK_ROWS, q + at, stride);
    _tile_loadd(KVIK_WEIGHTS, lines + at * kLanes, 64);
    _tile_dpbssd(KVIK_SUMS0, KVIK_ROWS, KVIK_WEIGHTS);
  }
  if (at < k) {
    _tile_loadd(KVIK_REST_ROWS, q + at, stride);
    _tile_loadd(KVIK_REST_WEIGHTS, lines + at * kLanes, 64);
    _tile_dpbssd(KVIK_SUMS0, KVIK_REST_ROWS, KVIK_REST_WEIGHTS);
  }
  _tile_stored(KVIK_SUMS0, sums, 64);
  order_memory();
}

void multiply_rows(const PackedWeights& m, const ByteRows& x, const MatmulOut& out, int64_t first_row, int64_t n_rows, PanelRange range) {
  const int64_t k = (m.layout.k + 3) / 4 * 4;
  const auto tile_rows = static_cast<int>(n_rows < kTileRows ? n_rows : kTileRows);
  const TileScope shapes(tile_rows, static_cast<int>(kTileK), static_cast<int>(k % kTileK));
  alignas(64) int32_t products[kTileRows][kLanes];
  for (int64_t panel = range.begin; panel < range.end; ++panel) {
    const auto* at = reinterpret_cast<const uint8_t*>(m.data) + panel * m.layout.panel_bytes;
    const F scale = load(reinterpret_cast<const float*>(at));
    const I zero_points = iload(at + 64);
    const I offset = isub(iload(at + 128), imul(zero_points, ibcast(static_cast<int32_t>(m.layout.k))));
    for (int64_t row = first_row; row < first_row + n_rows; row += tile_rows) {
      sum_panel(x.q + row * x.stride, x.stride, at + 192, k, products[0]);
      for (int r = 0; r < tile_rows; ++r) {
        const I row_zero = ibcast(x.zero_point[row + r] - 128);
        const I sum = isub(isub(iload(products[r]), imul(zero_points, ibcast(x.sum[row + r]))), imul(row_zero, offset));
        store_sums(out, row + r, panel * kLanes, m.layout.n, mul(to_float(sum), mul(bcast(x.scale[row + r]), scale)));
      }
    }
  }
}

}  // namespace

void matmul_byte_tiles(const PackedWeights& weights, const ByteRows& x, const MatmulOut& out, PanelRange range) {
  if (x.n_rows < kFewestTileRows) return avx512::matmul_bytes(weights, x, out, range);
  const int64_t whole = x.n_rows / kTileRows * kTileRows;
  if (whole > 0) multiply_rows(weights, x, out, 0, whole, range);
  if (whole < x.n_rows) multiply_rows(weights, x, out, whole, x.n_rows - whole, range);
}

}  // namespace kvik::cpu::amx
