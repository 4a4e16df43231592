#include <charconv>
#include <cstring>
#include <fmt/core.h>
#include <string>
#include <string_view>

#include "base/cpu_features.h"
#include "bench.h"

namespace kvik::bench {

double read_bandwidth(ThreadPool& pool, Clock clock, std::span<const std::byte> bytes) {
  const int64_t pieces = int64_t{pool.n_threads()} * 4, size = static_cast<int64_t>(bytes.size()) / pieces / 4096 * 4096;
  std::vector<uint64_t> sums(static_cast<size_t>(pieces));
  const double start = seconds_now(clock);
  pool.for_each(pieces, [&](int64_t i) { sums[static_cast<size_t>(i)] = cpu::fastest().read_bytes(bytes.data() + i * size, size); });
  const double gb_per_s = static_cast<double>(size * pieces) / (seconds_now(clock) - start) * 1e-9;
  uint64_t all = 0;
  for (uint64_t s : sums) all ^= s;
  return all == 0x5eed ? 0 : gb_per_s;  // uses the sums, so that the reads are not optimized away
}

double copy_bandwidth(ThreadPool& pool, Clock clock, std::span<std::byte> bytes) {
  const int64_t pieces = int64_t{pool.n_threads()} * 4, size = static_cast<int64_t>(bytes.size()) / 2 / pieces;
  std::byte* to = bytes.data() + bytes.size() / 2;
  const double start = seconds_now(clock);
  pool.for_each(pieces, [&](int64_t i) { std::memcpy(to + i * size, bytes.data() + i * size, static_cast<size_t>(size)); });
  return static_cast<double>(size * pieces) / (seconds_now(clock) - start) * 1e-9;
}

// 1 if the text is not a number.
static int count_of(std::string_view text) {
  int count = 1;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return std::max(1, count);
}

}  // namespace kvik::bench

int main(int argc, char** argv) {
  using namespace kvik;
  bench::Settings settings{.threads = usable_cores(), .tables = {}};
  std::string_view what = "all";
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (arg == "--threads") {
      settings.threads = bench::count_of(value), ++i;
    } else if (arg == "--rounds") {
      settings.rounds = bench::count_of(value), ++i;
    } else if (arg == "--own-time") {
      settings.threads = 1, settings.clock = bench::Clock::kOwnThread;
    } else if (arg == "--isa") {
      if (const cpu::CpuKernels* table = cpu::by_name(value)) settings.tables.push_back(table);
      ++i;
    } else if (arg == "all" || arg == "weights" || arg == "rows" || arg == "attention") {
      what = arg;
    } else {
      fmt::print(stderr, "usage: bench-kernels [all|weights|rows|attention] [--threads N] [--rounds N] [--isa NAME]... [--own-time]\n");
      return 2;
    }
  }
  if (settings.tables.empty()) {
    for (const cpu::CpuKernels* table : cpu::available())
      if (std::string_view(table->name) != "scalar") settings.tables.push_back(table);
  }
  fmt::print("cpu: {}; {} threads, medians of {}\n", describe(detect_cpu_features()), settings.threads, settings.rounds);
  if (what == "all" || what == "weights") bench::bench_weights(settings);
  if (what == "all" || what == "rows") bench::bench_rows(settings);
  if (what == "all" || what == "attention") bench::bench_attention(settings);
  return 0;
}
