#include <cstring>
#include <fmt/core.h>

#include "bench.h"
#include "formats.h"

namespace kvik::bench {
namespace {

struct Shape {
  int64_t k, n;
};

// The matrices of a decoder with 0.5 billion weights: 24 layers, 896 wide, feed-forward 4864, vocabulary 151936.
std::vector<Shape> half_billion(int layers) {
  std::vector<Shape> shapes;
  for (int l = 0; l < layers; ++l)
    for (const Shape& s : {Shape{896, 1152}, Shape{896, 896}, Shape{896, 9728}, Shape{4864, 896}}) shapes.push_back(s);
  shapes.push_back({896, 151936});
  return shapes;
}

}  // namespace

void bench_weights(const Settings& settings) {
  ThreadPool pool(settings.threads);
  const Inputs narrow(1, 896), wide(1, 4864);
  std::vector<float> out(151936);
  fmt::print("\none row by the matrices of a 0.5B decoder, from memory; share = of a plain read just before and after\n");
  for (const Format& format : formats()) {
    const std::vector<Shape> shapes = half_billion(format.format == cpu::WeightFormat::kF32 ? 12 : 24);
    int64_t total = 0;
    for (const Shape& s : shapes) total += (format.layout(s.k, s.n).size_bytes + 63) / 64 * 64;
    AlignedBuffer arena(static_cast<size_t>(total));
    std::memset(arena.data(), 0x21, arena.size_bytes());
    std::vector<cpu::PackedWeights> weights;
    int64_t at = 0;
    for (const Shape& s : shapes) {
      weights.push_back({format.layout(s.k, s.n), arena.data() + at});
      at += (weights.back().layout.size_bytes + 63) / 64 * 64;
    }
    for (const cpu::CpuKernels* kernels : settings.tables) {
      std::vector<double> speeds, shares, reads;
      for (int round = 0; round < settings.rounds; ++round) {
        double before = 0, after = 0, speed = 0;
        undisturbed([&] {
          before = read_bandwidth(pool, settings.clock, arena.bytes());
          const double start = seconds_now(settings.clock);
          for (const cpu::PackedWeights& w : weights) multiply(pool, *kernels, format, w, w.layout.k == 896 ? narrow : wide, 1, out.data());
          speed = static_cast<double>(total) / (seconds_now(settings.clock) - start) * 1e-9;
          after = read_bandwidth(pool, settings.clock, arena.bytes());
        });
        speeds.push_back(speed);
        shares.push_back(speed / (0.5 * (before + after)));
        reads.push_back(before);
      }
      fmt::print("  {:18} {:7} {:5} MB  {:6.1f} GB/s  {:5.1f} % of read {:5.1f} GB/s  ({:.1f} ms)\n", format.name, kernels->name,
                 total / 1000000, median(speeds), 100 * median(shares), median(reads), static_cast<double>(total) / median(speeds) * 1e-6);
    }
  }
  AlignedBuffer buffer(size_t{512} << 20);
  std::memset(buffer.data(), 1, buffer.size_bytes());
  std::vector<double> reads, copies;
  for (int round = 0; round < settings.rounds; ++round) {
    reads.push_back(read_bandwidth(pool, settings.clock, buffer.bytes()));
    copies.push_back(copy_bandwidth(pool, settings.clock, buffer.bytes()));
  }
  fmt::print("  memory: read {:.1f} GB/s, copy {:.1f} GB/s (bytes copied, counted once)\n", median(reads), median(copies));
}

}  // namespace kvik::bench
