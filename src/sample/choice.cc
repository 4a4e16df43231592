#include "sample/choice.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

#include "base/vector_clones.h"
#include "sample/log_softmax.h"

namespace kvik::sample {
namespace {

// Of the first entry that equals `value`, which the row contains. A block at a time, because a loop that may end anywhere is not
// vectorized.
KVIK_VECTOR_CLONES size_t index_of(const float* row, size_t n, float value) {
  constexpr size_t kTogether = 256;
  size_t i = 0;
  for (; i + kTogether <= n; i += kTogether) {
    int n_equal = 0;
    for (size_t j = 0; j < kTogether; ++j) n_equal += row[i + j] == value ? 1 : 0;
    if (n_equal > 0) break;
  }
  while (row[i] != value) ++i;
  return i;
}

}  // namespace

std::optional<size_t> choose_greedily(std::span<const float> logits) {
  const float largest = largest_of(logits);
  if (largest == -std::numeric_limits<float>::infinity()) return std::nullopt;
  return index_of(logits.data(), logits.size(), largest);
}

std::optional<size_t> choose_randomly(std::span<const float> logits, Rng& rng, FilterScratch& scratch) {
  const double uniform = rng.uniform();
  const float largest = largest_of(logits);
  if (largest == -std::numeric_limits<float>::infinity()) return std::nullopt;
  scratch.weights.resize(logits.size());
  weights_of(logits, largest, scratch.weights);
  const double target = uniform * std::accumulate(scratch.weights.begin(), scratch.weights.end(), 0.0);
  double sum = 0.0;
  size_t last = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    sum += scratch.weights[i];
    if (sum > target) return i;
    if (scratch.weights[i] > 0.0) last = i;
  }
  return last;  // the product was rounded up to the whole
}

std::string why_no_choice(std::span<const float> logits) {
  const auto n_nan = std::ranges::count_if(logits, [](float x) { return std::isnan(x); });
  if (logits.empty()) return "no token can be chosen: the row of logits is empty";
  if (n_nan > 0) {
    return fmt::format("no token can be chosen: {} of {} logits are NaN and the rest are minus infinity; the model overflows", n_nan,
                       logits.size());
  }
  return fmt::format("no token can be chosen: all {} are suppressed; allow at least one", logits.size());
}

}  // namespace kvik::sample
