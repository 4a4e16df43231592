#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "api/state.h"
#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "kernels/cpu/kernels.h"
#include "kvik/inspect.h"

namespace kvik {
namespace {

constexpr size_t kBytes = size_t{512} << 20;  // larger than any last-level cache
constexpr size_t kPiece = size_t{4} << 20;
constexpr int kPasses = 5;

}  // namespace

double measure_read_bandwidth_gb_per_s(int n_threads) {
  AlignedBuffer data(kBytes);  // with pages of the same size as weights
  std::memset(data.data(), 1, kBytes);
  const cpu::CpuKernels& kernels = cpu::fastest();
  ThreadPool pool(n_threads);
  std::vector<double> rates;
  std::atomic<uint64_t> total = 0;  // keeps the reads from being optimized away
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.for_each(static_cast<int64_t>(kBytes / kPiece), [&](int64_t piece) {
      total += kernels.read_bytes(data.data() + static_cast<size_t>(piece) * kPiece, static_cast<int64_t>(kPiece)) + 1;
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    rates.push_back(static_cast<double>(kBytes) / 1e9 / seconds);
  }
  std::sort(rates.begin(), rates.end());
  return total == 0 ? 0 : rates[kPasses / 2];
}

double measure_bandwidth_gb_per_s(const Model& model, int n_threads) {
  const double of_device = model.state()->backend().device_bandwidth_gb_per_s();
  return of_device > 0 ? of_device : measure_read_bandwidth_gb_per_s(n_threads);
}

}  // namespace kvik
