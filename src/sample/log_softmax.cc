#include "sample/log_softmax.h"

#include <algorithm>
#include <limits>

#include "base/deterministic_math.h"
#include "base/vector_clones.h"

namespace kvik::sample {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Without branches, so that a loop over it is vectorized.
inline double log_prob(float logit, float largest, double log_sum) {
  const double above = logit == largest ? 0.0 : static_cast<double>(logit) - static_cast<double>(largest);
  return logit > kMinusInfinity ? above - log_sum : -std::numeric_limits<double>::infinity();
}

KVIK_VECTOR_CLONES void subtract(const float* logits, float largest, double log_sum, float* log_probs, size_t n) {
  for (size_t i = 0; i < n; ++i) log_probs[i] = static_cast<float>(log_prob(logits[i], largest, log_sum));
}

inline double exponential(float logit, double largest) {
  const double weight = deterministic_exp(static_cast<double>(logit) - largest);
  return weight == weight ? weight : 0.0;
}

KVIK_VECTOR_CLONES void exponentials(const float* logits, double largest, double* weights, size_t n) {
  for (size_t i = 0; i < n; ++i) weights[i] = exponential(logits[i], largest);
}

// In lanes, so that no addition waits for the one before: one order on every instruction set.
KVIK_VECTOR_CLONES double sum_of_exponentials(const float* logits, double largest, size_t n) {
  constexpr size_t kLanes = 16;
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += exponential(logits[i + lane], largest);
  }
  for (size_t lane = 0; i + lane < n; ++lane) sums[lane] += exponential(logits[i + lane], largest);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

constexpr size_t kMaxima = 32;  // independent, which the compiler keeps in vector registers

KVIK_VECTOR_CLONES float largest(const float* logits, size_t n) {
  float lanes[kMaxima];
  for (float& lane : lanes) lane = kMinusInfinity;
  size_t i = 0;
  for (; i + kMaxima <= n; i += kMaxima) {
    for (size_t lane = 0; lane < kMaxima; ++lane) lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
  }
  for (; i < n; ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  return *std::max_element(lanes, lanes + kMaxima);
}

}  // namespace

float largest_of(std::span<const float> logits) { return largest(logits.data(), logits.size()); }

void weights_of(std::span<const float> logits, float largest, std::span<double> weights) {
  if (largest == -kMinusInfinity) {
    for (size_t i = 0; i < logits.size(); ++i) weights[i] = logits[i] == largest ? 1.0 : 0.0;
    return;
  }
  if (largest == kMinusInfinity) {
    std::ranges::fill(weights, 0.0);
    return;
  }
  exponentials(logits.data(), static_cast<double>(largest), weights.data(), logits.size());
}

Normalizer normalizer_of(std::span<const float> logits) {
  const float largest = largest_of(logits);
  if (largest == kMinusInfinity) return {largest, deterministic_log(0.0)};
  const double sum = largest == -kMinusInfinity ? static_cast<double>(std::ranges::count(logits, largest))
                                                : sum_of_exponentials(logits.data(), static_cast<double>(largest), logits.size());
  return {largest, deterministic_log(sum)};
}

void log_softmax(std::span<const float> logits, std::span<float> log_probs) {
  const Normalizer normalizer = normalizer_of(logits);
  subtract(logits.data(), normalizer.largest, normalizer.log_sum, log_probs.data(), logits.size());
}

double log_prob_of(std::span<const float> logits, TokenId id) {
  const Normalizer normalizer = normalizer_of(logits);
  return log_prob(logits[static_cast<size_t>(id)], normalizer.largest, normalizer.log_sum);
}

}  // namespace kvik::sample
