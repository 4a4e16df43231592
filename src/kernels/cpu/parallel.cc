#include "kernels/cpu/parallel.h"

#include <algorithm>

namespace kvik::cpu {
namespace {

constexpr int64_t kFewestItems = 4, kMostItems = 16;  // per thread
constexpr int64_t kLeastWork = 64 << 10;              // bytes of weights times rows of an item: below it, handing it out takes longer
constexpr int64_t kGoodWork = 16 << 20;               // multiplications of an item, some tens of microseconds
constexpr int64_t kGroupPanels = 2;                   // that share one reading of the rows
constexpr int64_t kFewWeights = 4;                    // times the bytes of the rows: below it, a thread keeps its rows in its cache

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
constexpr int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

int64_t bytes_of_row(const FloatRows& x) { return x.stride * int64_t{sizeof(float)}; }
int64_t bytes_of_row(const QuantizedRows& x) { return x.n_steps * 32; }
int64_t bytes_of_row(const ByteRows& x) { return x.stride; }

template <class Rows, class Kernel>
void run(ThreadPool& pool, Kernel kernel, const PackedWeights& weights, const Rows& x, const MatmulOut& out, int64_t row_tile) {
  const ProductItems items = product_items(weights.layout, {x.n_rows, row_tile, bytes_of_row(x)}, pool.n_threads());
  pool.for_each(items.n_items(), [&](int64_t item) {
    const int64_t row = items.first_row(item), n_rows = std::min(items.rows_each, x.n_rows - row);
    const MatmulOut rows_out{out.data + row * out.stride, out.stride, out.bias};
    kernel(weights, n_rows == x.n_rows ? x : rows_from(x, row, n_rows), rows_out, items.panels(item));
  });
}

}  // namespace

PanelRange ProductItems::panels(int64_t item) const {
  const int64_t n_groups = divide_up(n_panels, group_panels), i = neighbors_share_rows ? item % n_column_items : item / n_row_items;
  const auto begin_of = [&](int64_t column_item) { return n_groups * column_item / n_column_items * group_panels; };
  return {begin_of(i), std::min(n_panels, begin_of(i + 1))};
}

ProductItems product_items(const WeightLayout& layout, const RowTiles& rows, int n_threads) {
  ProductItems items{.n_panels = layout.n_panels, .rows_each = rows.n_rows};
  if (n_threads == 1) return items;
  items.group_panels = rows.n_rows == 1 ? 1 : kGroupPanels;
  const int64_t n_groups = divide_up(layout.n_panels, items.group_panels), work = layout.n_panels * layout.panel_bytes * rows.n_rows;
  const int64_t good = layout.k * layout.n * rows.n_rows / kGoodWork;
  const int64_t wanted =
      std::min(std::clamp(good, n_threads * kFewestItems, n_threads * kMostItems), std::max<int64_t>(1, work / kLeastWork));
  items.n_column_items = std::min(n_groups, wanted);
  const int64_t most_row_items = std::max<int64_t>(1, rows.n_rows / rows.tile);
  const int64_t row_items = std::min(most_row_items, divide_up(wanted, items.n_column_items));
  items.rows_each = round_up(divide_up(rows.n_rows, row_items), rows.tile);
  items.n_row_items = divide_up(rows.n_rows, items.rows_each);
  items.neighbors_share_rows = layout.n_panels * layout.panel_bytes < kFewWeights * rows.n_rows * rows.row_bytes;
  return items;
}

void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const FloatRows& x, const MatmulOut& out) {
  run(pool, kernels.matmul, weights, x, out, kernels.float_row_tile);
}

void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out) {
  run(pool, kernels.matmul_quantized, weights, x, out, kernels.byte_row_tile);
}

void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const ByteRows& x, const MatmulOut& out) {
  run(pool, kernels.matmul_bytes, weights, x, out, kernels.byte_row_tile);
}

}  // namespace kvik::cpu
