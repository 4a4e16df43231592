#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <sys/resource.h>
#include <time.h>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "kernels/cpu/kernels.h"

namespace kvik::bench {

// Wall time, or the CPU time of this thread on a busy machine (one thread only).
enum class Clock { kWall, kOwnThread };
inline double seconds_now(Clock clock) {
  timespec t{};
  clock_gettime(clock == Clock::kWall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Settings {
  int threads = 2;
  int rounds = 7;
  Clock clock = Clock::kWall;
  std::vector<const cpu::CpuKernels*> tables;
};

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// Repeats fn a few times if the system preempted it: results are for an idle machine.
template <class Fn>
void undisturbed(Fn fn) {
  const auto preemptions = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
  };
  for (int attempt = 0; attempt < 6; ++attempt) {
    const long before = preemptions();
    fn();
    if (preemptions() == before) return;
  }
}

// GB/s of reading all of `bytes` with every thread of the pool.
double read_bandwidth(ThreadPool& pool, Clock clock, std::span<const std::byte> bytes);
// GB/s of copying the first half over the second; each byte is counted once.
double copy_bandwidth(ThreadPool& pool, Clock clock, std::span<std::byte> bytes);

void bench_weights(const Settings& settings);    // one row, 0.5B-like matrices from memory
void bench_rows(const Settings& settings);       // many rows: GMAC/s against M
void bench_attention(const Settings& settings);  // one row at depth, a block of rows

}  // namespace kvik::bench
