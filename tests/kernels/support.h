#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/kernels.h"

namespace kvik::cpu {

// Numbers that are the same on every machine and in every run.
class Numbers {
 public:
  explicit Numbers(uint32_t seed = 7) : rng_(seed) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(rng_() % n); }
  float normal() {  // the sum of twelve uniform numbers is close enough
    float sum = -6.0f;
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(rng_() >> 8) * 0x1p-24f;
    return sum;
  }
  std::vector<float> normals(int64_t n, float scale = 1.0f) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& v : values) v = normal() * scale;
    return values;
  }

 private:
  std::mt19937 rng_;
};

inline bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b)); }

inline ::testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " values against " << b.size();
  for (size_t i = 0; i < a.size(); ++i)
    if (!same_bits(a[i], b[i])) return ::testing::AssertionFailure() << "value " << i << ": " << a[i] << " against " << b[i];
  return ::testing::AssertionSuccess();
}

inline const CpuKernels& judge() { return *by_name("scalar"); }

// Rows that break careless kernels: all at the limit, zero, denormal, huge, then ordinary ones.
inline std::vector<float> difficult_rows(Numbers& numbers, int64_t n_rows, int64_t k) {
  std::vector<float> x = numbers.normals(n_rows * k);
  for (int64_t i = 0; i < k; ++i) {
    const auto at = [&](int64_t row) -> float& { return x[static_cast<size_t>(row * k + i)]; };
    if (n_rows > 1) at(1) = -3.0f;
    if (n_rows > 2) at(2) = i % 2 == 0 ? 3.0f : -3.0f;
    if (n_rows > 3) at(3) = 1e-39f;
    if (n_rows > 4) at(4) = 0.0f;
    if (n_rows > 5) at(5) = static_cast<float>(i % 3 - 1) * 1e30f;
  }
  return x;
}

}  // namespace kvik::cpu
