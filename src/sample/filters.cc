#include "sample/filters.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "base/deterministic_math.h"
#include "sample/log_softmax.h"

namespace kvik::sample {
namespace {

constexpr float kRemoved = -std::numeric_limits<float>::infinity();

// How far below the largest logit this one is; 0 for the largest even if it is infinite.
double below_largest(float logit, float largest) {
  return logit == largest ? 0.0 : static_cast<double>(logit) - static_cast<double>(largest);
}

void remove_below(std::span<float> logits, float largest, double lowest) {
  for (float& logit : logits) {
    if (!(below_largest(logit, largest) >= lowest)) logit = kRemoved;
  }
}

// Sorts as a number: larger logits first, of equals the lower index first. Not for NaN.
uint64_t rank_key(float logit, size_t index) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);  // -0 and 0 are equal
  const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{~ascending} << 32 | index;
}
size_t index_of(uint64_t key) { return key & 0xffffffffu; }

// The keys of all logits that are at least `lowest`.
void collect_keys(std::span<const float> logits, double lowest, std::vector<uint64_t>& keys) {
  keys.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > kRemoved && static_cast<double>(logits[i]) >= lowest) keys.push_back(rank_key(logits[i], i));
  }
}

// A logit below which nothing stays, by a histogram of the weights' exponents: spares sorting what will be removed.
double lower_bound_of_top_p(std::span<const double> weights, float largest, double mass) {
  constexpr size_t kBuckets = 64;
  std::array<double, kBuckets> sums{};
  for (const double weight : weights) {
    const auto halvings = 1023 - static_cast<int64_t>(std::bit_cast<uint64_t>(weight) >> 52);  // weight >= 2^-halvings
    sums[static_cast<size_t>(std::clamp<int64_t>(halvings, 0, kBuckets - 1))] += weight;
  }
  double above = 0.0;
  for (size_t bucket = 0; bucket + 1 < kBuckets; ++bucket) {
    above += sums[bucket];
    if (above >= mass) return static_cast<double>(largest) - (static_cast<double>(bucket) + 0.01) * 0.6931471805599453;
  }
  return kRemoved;
}

// The key, in rank order, at which `mass` is reached; none if the keys do not reach it. Sorts no more than it must.
std::optional<uint64_t> key_that_reaches(double mass, std::vector<uint64_t>& keys, std::span<const double> weights) {
  double sum = 0.0;
  auto begin = keys.begin();
  for (std::ptrdiff_t block = 256; begin != keys.end(); block *= 4) {
    const auto end = begin + std::min(block, keys.end() - begin);
    if (end != keys.end()) std::nth_element(begin, end, keys.end());
    std::sort(begin, end);
    for (; begin != end; ++begin) {
      sum += weights[index_of(*begin)];
      if (sum >= mass) return *begin;
    }
  }
  return std::nullopt;
}

double entropy_of(std::span<const float> logits, const Normalizer& normalizer, FilterScratch& scratch) {
  scratch.weights.resize(logits.size());
  weights_of(logits, normalizer.largest, scratch.weights);
  double sum = 0.0, mean = 0.0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (scratch.weights[i] == 0.0) continue;
    sum += scratch.weights[i];
    mean += scratch.weights[i] * below_largest(logits[i], normalizer.largest);
  }
  return normalizer.log_sum - mean / sum;
}

}  // namespace

float kth_largest(std::span<const float> logits, size_t k, FilterScratch& scratch) {
  if (k >= logits.size()) return kRemoved;
  // Collects what beats the k-th best so far; whenever the list is full, that bound rises.
  const size_t capacity = 2 * k + 64;
  std::vector<float>& best = scratch.values;
  best.clear();
  best.reserve(capacity);
  float bound = kRemoved;
  for (const float logit : logits) {
    if (!(logit > bound)) continue;
    best.push_back(logit);
    if (best.size() < capacity) continue;
    std::nth_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(k - 1), best.end(), std::greater<>());
    best.resize(k);
    bound = best.back();
  }
  if (best.size() < k) return kRemoved;
  std::nth_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(k - 1), best.end(), std::greater<>());
  return best[k - 1];
}

void keep_top_p(std::span<float> logits, double p, FilterScratch& scratch) {
  const float largest = largest_of(logits);
  scratch.weights.resize(logits.size());
  weights_of(logits, largest, scratch.weights);
  const double mass = p * std::accumulate(scratch.weights.begin(), scratch.weights.end(), 0.0);
  collect_keys(logits, lower_bound_of_top_p(scratch.weights, largest, mass), scratch.keys);
  std::optional<uint64_t> last = key_that_reaches(mass, scratch.keys, scratch.weights);
  if (!last) {  // the bound was a hair too high, or all stay
    collect_keys(logits, kRemoved, scratch.keys);
    last = key_that_reaches(mass, scratch.keys, scratch.weights);
  }
  const uint64_t limit = last.value_or(std::numeric_limits<uint64_t>::max());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > kRemoved) || rank_key(logits[i], i) > limit) logits[i] = kRemoved;
  }
}

void keep_min_p(std::span<float> logits, double p) { remove_below(logits, largest_of(logits), deterministic_log(p)); }

void keep_typical(std::span<float> logits, double mass, FilterScratch& scratch) {
  const Normalizer normalizer = normalizer_of(logits);
  const double entropy = entropy_of(logits, normalizer, scratch);
  // In float, so that what is equally far to the precision of a logit counts as equal.
  std::vector<float>& distances = scratch.values;
  distances.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double surprise = normalizer.log_sum - below_largest(logits[i], normalizer.largest);
    distances[i] = logits[i] > kRemoved ? static_cast<float>(std::abs(surprise - entropy)) : -kRemoved;
  }
  scratch.keys.clear();
  for (size_t i = 0; i < logits.size(); ++i) scratch.keys.push_back(rank_key(-distances[i], i));
  const double needed = mass * std::accumulate(scratch.weights.begin(), scratch.weights.end(), 0.0);
  const std::optional<uint64_t> last = key_that_reaches(needed, scratch.keys, scratch.weights);
  const float farthest = last ? distances[index_of(*last)] : -kRemoved;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > kRemoved) || distances[i] > farthest) logits[i] = kRemoved;
  }
}

void cut_epsilon(std::span<float> logits, double epsilon) {
  const Normalizer normalizer = normalizer_of(logits);
  remove_below(logits, normalizer.largest, std::min(0.0, deterministic_log(epsilon) + normalizer.log_sum));
}

void cut_eta(std::span<float> logits, double eta, FilterScratch& scratch) {
  const Normalizer normalizer = normalizer_of(logits);
  const double log_eta = deterministic_log(eta);
  const double lowest = std::min(log_eta, 0.5 * log_eta - entropy_of(logits, normalizer, scratch));
  remove_below(logits, normalizer.largest, std::min(0.0, lowest + normalizer.log_sum));
}

}  // namespace kvik::sample
