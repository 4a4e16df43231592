#include "kernels/cpu/attention.h"

#include <cstring>
#include <fmt/core.h>

#include "bench.h"

namespace kvik::bench {
namespace {

constexpr int64_t kLayers = 24;

// A cache of 24 layers, so that each layer is read from memory. Every byte is a small number in every format.
struct Cache {
  Cache(cpu::KvFormat format, int64_t n_kv_heads, int64_t head_dim, int64_t n)
      : layout(cpu::kv_layout(format, n_kv_heads, head_dim, head_dim)) {
    const int64_t n_pages = (n + cpu::kPagePositions - 1) / cpu::kPagePositions;
    memory = AlignedBuffer(static_cast<size_t>(n_pages * layout.page_bytes * kLayers));
    std::memset(memory.data(), 0x2c, memory.size_bytes());
    for (int64_t p = 0; p < n_pages; ++p) pages.push_back(memory.data() + p * layout.page_bytes * kLayers);
  }
  cpu::KvLayout layout;
  AlignedBuffer memory;
  std::vector<const std::byte*> pages;
};

void measure(const Settings& settings, ThreadPool& pool, const char* name, cpu::KvFormat format, int64_t n_heads, int64_t n_kv_heads,
             int64_t n, int64_t n_rows) {
  constexpr int64_t kDim = 64;
  const Cache cache(format, n_kv_heads, kDim, n);
  cpu::Attention attention{.layout = cache.layout, .rule = {.scale = 0.125f}, .n_heads = static_cast<int32_t>(n_heads)};
  std::vector<float> q(static_cast<size_t>(n_rows * n_heads * kDim)), out(q.size());
  for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * 0.02f;
  std::vector<cpu::AttendRow> rows;
  for (int64_t r = 0; r < n_rows; ++r) {
    const int64_t position = n - n_rows + r;
    rows.push_back({.q = q.data() + r * n_heads * kDim,
                    .out = out.data() + r * n_heads * kDim,
                    .pages = cache.pages.data(),
                    .n_keys = position + 1,
                    .position = position});
  }
  std::vector<float> scratch(static_cast<size_t>(cpu::attend_scratch_floats(attention, n_rows, n)));
  for (const cpu::CpuKernels* kernels : settings.tables) {
    std::vector<double> times, reads;
    for (int round = 0; round < settings.rounds; ++round) {
      double seconds = 0, read = 0;
      undisturbed([&] {
        read = read_bandwidth(pool, settings.clock, cache.memory.bytes());
        const double start = seconds_now(settings.clock);
        for (int64_t layer = 0; layer < kLayers; ++layer) {
          attention.page_offset = layer * cache.layout.page_bytes;
          cpu::attend(pool, *kernels, attention, rows, scratch);
        }
        seconds = seconds_now(settings.clock) - start;
      });
      times.push_back(seconds);
      reads.push_back(read);
    }
    const double time = median(times), bytes = static_cast<double>(cache.memory.size_bytes());
    fmt::print(
        "  {:3} {:7} {:2} heads on {:2}, {:5} keys, {:3} rows: {:8.1f} us a layer, {:6.2f} ms for {}; {:5.1f} % of read {:.1f} GB/s\n",
        name, kernels->name, n_heads, n_kv_heads, n, n_rows, time / kLayers * 1e6, time * 1e3, kLayers,
        100 * bytes / time * 1e-9 / median(reads), median(reads));
  }
}

}  // namespace

void bench_attention(const Settings& settings) {
  ThreadPool pool(settings.threads);
  fmt::print("\nattention, heads of 64, {} layers from memory\n", kLayers);
  for (int64_t n : {128, 1024, 4096}) {
    measure(settings, pool, "f32", cpu::KvFormat::kF32, 14, 2, n, 1);
    measure(settings, pool, "f16", cpu::KvFormat::kF16, 14, 2, n, 1);
    measure(settings, pool, "q8", cpu::KvFormat::kQ8, 14, 2, n, 1);
  }
  measure(settings, pool, "f16", cpu::KvFormat::kF16, 8, 8, 1024, 1);
  measure(settings, pool, "f16", cpu::KvFormat::kF16, 14, 2, 512, 128);
  measure(settings, pool, "f16", cpu::KvFormat::kF16, 8, 8, 512, 128);
}

}  // namespace kvik::bench
