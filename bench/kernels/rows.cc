#include <cstring>
#include <fmt/core.h>

#include "bench.h"
#include "formats.h"

namespace kvik::bench {

void bench_rows(const Settings& settings) {
  constexpr int64_t kK = 896, kN = 4864, kMostRows = 512, kCopiesBytes = int64_t{200} << 20;
  ThreadPool pool(settings.threads);
  const Inputs inputs(kMostRows, kK);
  std::vector<float> out(static_cast<size_t>(kMostRows * kN));
  fmt::print("\nrows by a matrix of {} x {}, copies of it from memory: GFLOP/s\n  {:26}", kK, kN, "rows");
  const std::vector<int64_t> row_counts = {1, 2, 4, 8, 16, 64, 512};
  for (int64_t m : row_counts) fmt::print("{:8}", m);
  fmt::print("\n");
  for (const Format& format : formats()) {
    const cpu::WeightLayout layout = format.layout(kK, kN);
    const int64_t step = (layout.size_bytes + 63) / 64 * 64, n_copies = std::max<int64_t>(1, kCopiesBytes / step);
    AlignedBuffer arena(static_cast<size_t>(step * n_copies));
    std::memset(arena.data(), 0x21, arena.size_bytes());
    for (const cpu::CpuKernels* kernels : settings.tables) {
      fmt::print("  {:18} {:7}", format.name, kernels->name);
      for (int64_t m : row_counts) {
        const int64_t repeats = m >= 64 ? std::max<int64_t>(1, std::min<int64_t>(n_copies, 512 / m)) : n_copies;
        std::vector<double> speeds;
        for (int round = 0; round < settings.rounds; ++round) {
          double seconds = 0;
          undisturbed([&] {
            const double start = seconds_now(settings.clock);
            for (int64_t i = 0; i < repeats; ++i)
              multiply(pool, *kernels, format, {layout, arena.data() + i * step}, inputs, m, out.data());
            seconds = seconds_now(settings.clock) - start;
          });
          speeds.push_back(2.0 * static_cast<double>(m * kK * kN * repeats) / seconds * 1e-9);
        }
        fmt::print("{:8.0f}", median(speeds));
      }
      fmt::print("\n");
    }
  }
}

}  // namespace kvik::bench
