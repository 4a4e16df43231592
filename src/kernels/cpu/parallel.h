#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/cpu/kernels.h"

// The products of whole matrices on all threads of a pool. Small ones stay on the calling thread.
namespace kvik::cpu {

struct RowTiles {
  int64_t n_rows;
  int64_t tile;       // rows are split at its multiples
  int64_t row_bytes;  // that a kernel reads
};

// How a product is cut into items of panels times rows: every thread gets a few, as even as they can be, and none so small that handing it
// out takes longer than its work. Neighboring items, which are mostly of one thread, have the same panels, so that it reads them from its
// cache the second time; or the same rows if those are many bytes: they come from the caches of the threads that wrote them.
struct ProductItems {
  int64_t n_panels;
  int64_t group_panels = 1;  // never split: kernels read rows once for such a group
  int64_t n_column_items = 1, n_row_items = 1;
  int64_t rows_each = 1;  // the last ones may have fewer
  bool neighbors_share_rows = false;

  int64_t n_items() const { return n_column_items * n_row_items; }
  PanelRange panels(int64_t item) const;
  int64_t first_row(int64_t item) const { return (neighbors_share_rows ? item / n_column_items : item % n_row_items) * rows_each; }
};
ProductItems product_items(const WeightLayout& layout, const RowTiles& rows, int n_threads);

void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const FloatRows& x, const MatmulOut& out);
void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out);
void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const ByteRows& x, const MatmulOut& out);

}  // namespace kvik::cpu
