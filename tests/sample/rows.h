#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "sample/filters.h"

namespace kvik::sample {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Random logits of many kinds: spread or flat, with ties, with -inf entries.
struct RowKind {
  float spread = 3.0f;
  bool ties = false;    // only 16 different values
  double banned = 0.0;  // share of entries that are -inf
};

inline std::vector<float> random_row(size_t n, uint64_t seed, const RowKind& kind = {}) {
  std::mt19937_64 random(seed * 7919 + n);
  std::normal_distribution<float> normal(0.0f, kind.spread);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::vector<float> row(n);
  for (float& x : row) {
    x = kind.ties ? kind.spread * 0.25f * static_cast<float>(random() % 16) : normal(random);
    if (uniform(random) < kind.banned) x = -kInfinity;
  }
  return row;
}

// The filter top_k on a whole row; the sampler uses the threshold alone.
inline void keep_top_k(std::span<float> row, size_t k, FilterScratch& scratch) {
  const float lowest = kth_largest(row, k, scratch);
  for (float& x : row) x = x >= lowest ? x : -kInfinity;
}

inline const std::vector<RowKind>& row_kinds() {
  static const std::vector<RowKind> kinds = {
      {}, {.spread = 0.01f}, {.spread = 20.0f}, {.ties = true}, {.banned = 0.5}, {.ties = true, .banned = 0.95}};
  return kinds;
}

}  // namespace kvik::sample
