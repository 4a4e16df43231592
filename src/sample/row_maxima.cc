#include "sample/row_maxima.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/vector_clones.h"

namespace kvik::sample {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Of n blocks of 64 entries. The four parts of a block are compared first, so that there is one reduction per block.
KVIK_VECTOR_CLONES void find_maxima(const float* row, size_t n, float* maxima) {
  constexpr size_t kLanes = 16;
  for (size_t block = 0; block < n; ++block, row += 4 * kLanes) {
    float lanes[kLanes];
    for (size_t i = 0; i < kLanes; ++i) {
      float most = kMinusInfinity;
      most = row[i] > most ? row[i] : most;
      most = row[i + kLanes] > most ? row[i + kLanes] : most;
      most = row[i + 2 * kLanes] > most ? row[i + 2 * kLanes] : most;
      lanes[i] = row[i + 3 * kLanes] > most ? row[i + 3 * kLanes] : most;
    }
    for (size_t i = 0; i < 8; ++i) lanes[i] = lanes[i + 8] > lanes[i] ? lanes[i + 8] : lanes[i];
    for (size_t i = 0; i < 4; ++i) lanes[i] = lanes[i + 4] > lanes[i] ? lanes[i + 4] : lanes[i];
    for (size_t i = 0; i < 2; ++i) lanes[i] = lanes[i + 2] > lanes[i] ? lanes[i + 2] : lanes[i];
    maxima[block] = lanes[1] > lanes[0] ? lanes[1] : lanes[0];
  }
}

}  // namespace

void RowMaxima::find(std::span<const float> row) {
  row_ = row;
  maxima_.resize((row.size() + kBlock - 1) / kBlock);
  const size_t n_whole = row.size() / kBlock;
  find_maxima(row.data(), n_whole, maxima_.data());
  if (n_whole < maxima_.size()) {
    maxima_.back() = kMinusInfinity;
    for (const float x : row.subspan(n_whole * kBlock)) maxima_.back() = x > maxima_.back() ? x : maxima_.back();
  }
  largest_ = maxima_.empty() ? kMinusInfinity : *std::ranges::max_element(maxima_);
}

float RowMaxima::reached_by(size_t n) {
  if (n == 0 || n > maxima_.size()) return kMinusInfinity;
  ranked_ = maxima_;
  std::ranges::nth_element(ranked_, ranked_.begin() + static_cast<std::ptrdiff_t>(n - 1), std::greater<>());
  return ranked_[n - 1];
}

}  // namespace kvik::sample
