#include "sample/log_softmax.h"

#include <algorithm>
#include <bit>
#include <cstdint>
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

// exp(x) for x <= 0, within 3e-7 of it; 0 below -87 and for NaN. Single precision, because only the sum of many is wanted.
inline float quick_exponential(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float clamped = x > -87.0f ? x : -87.0f, rounded = clamped * 1.44269504f + kMagic, n = rounded - kMagic;
  const float r = clamped - n * 0.693359375f - n * -2.12194440e-4f;  // n ln 2 in two parts; the first product is exact
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * (r * r) + r + 1.0f;
  const float scaled = std::bit_cast<float>(std::bit_cast<uint32_t>(y) + (std::bit_cast<uint32_t>(rounded) << 23));
  return x > -87.0f ? scaled : 0.0f;
}

// In lanes, so that no addition waits for the one before: one order on every instruction set. A few vectors are summed in single
// precision, so that errors do not add up.
KVIK_VECTOR_CLONES double sum_of_exponentials(const float* logits, float largest, size_t n) {
  constexpr size_t kLanes = 16, kFew = 16 * kLanes;
  double sum = 0.0;
  for (size_t first = 0; first < n; first += kFew) {
    const size_t end = first + kFew < n ? first + kFew : n;
    float lanes[kLanes] = {};
    size_t i = first;
    for (; i + kLanes <= end; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += quick_exponential(logits[i + lane] - largest);
    }
    for (; i < end; ++i) lanes[0] += quick_exponential(logits[i] - largest);
    for (const float lane : lanes) sum += static_cast<double>(lane);
  }
  return sum;
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

Normalizer normalizer_of(std::span<const float> logits) { return normalizer_of(logits, largest_of(logits)); }

Normalizer normalizer_of(std::span<const float> logits, float largest) {
  if (largest == kMinusInfinity) return {largest, deterministic_log(0.0)};
  const double sum = largest == -kMinusInfinity ? static_cast<double>(std::ranges::count(logits, largest))
                                                : sum_of_exponentials(logits.data(), largest, logits.size());
  return {largest, deterministic_log(sum)};
}

void log_softmax(std::span<const float> logits, std::span<float> log_probs) {
  const Normalizer normalizer = normalizer_of(logits);
  subtract(logits.data(), normalizer.largest, normalizer.log_sum, log_probs.data(), logits.size());
}

double log_prob_of(float logit, const Normalizer& normalizer) { return log_prob(logit, normalizer.largest, normalizer.log_sum); }

double log_prob_of(std::span<const float> logits, TokenId id) {
  return log_prob_of(logits[static_cast<size_t>(id)], normalizer_of(logits));
}

}  // namespace kvik::sample
