#include "cli/bandwidth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace kvik::cli {
namespace {

constexpr size_t kBytes = size_t{512} << 20;  // beyond any last-level cache here
constexpr size_t kPiece = size_t{4} << 20;
constexpr int kPasses = 5;

// Eight independent sums, so that the reader waits for memory and not for itself.
uint64_t sum_of(const uint64_t* data, size_t n) {
  std::array<uint64_t, 8> sums{};
  for (size_t i = 0; i + 8 <= n; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += data[i + lane];
  }
  uint64_t sum = 0;
  for (const uint64_t lane : sums) sum += lane;
  return sum;
}

}  // namespace

double read_bandwidth_gb_per_s(int n_threads) {
  const std::vector<uint64_t> data(kBytes / sizeof(uint64_t), 1);
  ThreadPool pool(n_threads);
  std::vector<double> rates;
  std::atomic<uint64_t> total = 0;  // keeps the reading from being optimised away
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.for_each(static_cast<int64_t>(kBytes / kPiece), [&](int64_t piece) {
      total += sum_of(data.data() + static_cast<size_t>(piece) * (kPiece / sizeof(uint64_t)), kPiece / sizeof(uint64_t));
    });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    rates.push_back(static_cast<double>(kBytes) / 1e9 / seconds);
  }
  std::sort(rates.begin(), rates.end());
  return total == 0 ? 0 : rates[kPasses / 2];
}

}  // namespace kvik::cli
