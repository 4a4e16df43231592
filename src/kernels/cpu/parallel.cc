#include "kernels/cpu/parallel.h"

#include <algorithm>

namespace kvik::cpu {
namespace {

constexpr int64_t kItemsPerThread = 4;
constexpr int64_t kLeastWork = 64 << 10;  // bytes of weights times rows, some microseconds

template <class Rows, class Kernel>
void run(ThreadPool& pool, Kernel kernel, const PackedWeights& weights, const Rows& x, const MatmulOut& out) {
  pool.for_ranges(weights.layout.n_panels, panels_per_item(weights.layout, x.n_rows, pool.n_threads()), [&](int64_t begin, int64_t end) {
    kernel(weights, x, out, PanelRange{begin, end});
  });
}

}  // namespace

int64_t panels_per_item(const WeightLayout& layout, int64_t n_rows, int n_threads) {
  const int64_t work_per_panel = std::max<int64_t>(1, layout.panel_bytes * std::max<int64_t>(1, n_rows));
  const int64_t least = (kLeastWork + work_per_panel - 1) / work_per_panel;
  const int64_t items = n_threads * kItemsPerThread;
  const int64_t even = n_threads == 1 ? layout.n_panels : (layout.n_panels + items - 1) / items;
  return std::max(least, even);
}

void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const FloatRows& x, const MatmulOut& out) {
  run(pool, kernels.matmul, weights, x, out);
}

void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out) {
  run(pool, kernels.matmul_quantized, weights, x, out);
}

void matmul(ThreadPool& pool, const CpuKernels& kernels, const PackedWeights& weights, const ByteRows& x, const MatmulOut& out) {
  run(pool, kernels.matmul_bytes, weights, x, out);
}

}  // namespace kvik::cpu
