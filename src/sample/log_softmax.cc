#include "sample/log_softmax.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/deterministic_math.h"
#include "base/vector_clones.h"

namespace kvik::sample {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

double log_prob(float logit, const Normalizer& normalizer) {
  if (!(logit > kMinusInfinity)) return -std::numeric_limits<double>::infinity();
  const double above = logit == normalizer.largest ? 0.0 : static_cast<double>(logit) - static_cast<double>(normalizer.largest);
  return above - normalizer.log_sum;
}

// A quarter of the time of a small translator on ONNX Runtime.
KVIK_VECTOR_CLONES void exponentials(const float* logits, double largest, double* weights, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const double weight = deterministic_exp(static_cast<double>(logits[i]) - largest);
    weights[i] = weight == weight ? weight : 0.0;
  }
}

}  // namespace

float largest_of(std::span<const float> logits) {
  constexpr size_t kLanes = 16;  // independent maxima, which the compiler keeps in vector registers
  std::array<float, kLanes> lanes;
  lanes.fill(kMinusInfinity);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
  }
  for (; i < logits.size(); ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  return *std::max_element(lanes.begin(), lanes.end());
}

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
  std::array<double, 512> weights;  // a block at a time, so that the exponentials are vector code and the sum keeps its order
  double sum = 0.0;
  for (size_t begin = 0; begin < logits.size(); begin += weights.size()) {
    const std::span<const float> block = logits.subspan(begin, std::min(weights.size(), logits.size() - begin));
    weights_of(block, largest, std::span(weights).first(block.size()));
    for (size_t i = 0; i < block.size(); ++i) sum += weights[i];
  }
  return {largest, deterministic_log(sum)};
}

void log_softmax(std::span<const float> logits, std::span<float> log_probs) {
  const Normalizer normalizer = normalizer_of(logits);
  for (size_t i = 0; i < logits.size(); ++i) log_probs[i] = static_cast<float>(log_prob(logits[i], normalizer));
}

double log_prob_of(std::span<const float> logits, TokenId id) { return log_prob(logits[static_cast<size_t>(id)], normalizer_of(logits)); }

}  // namespace kvik::sample
