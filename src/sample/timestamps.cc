#include "sample/timestamps.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvik::sample {
namespace {

constexpr float kNotAllowed = -std::numeric_limits<float>::infinity();

void forbid(std::span<float> scores, int64_t from, int64_t to) {
  const auto size = static_cast<int64_t>(scores.size());
  for (int64_t i = std::clamp<int64_t>(from, 0, size); i < std::clamp<int64_t>(to, 0, size); ++i)
    scores[static_cast<size_t>(i)] = kNotAllowed;
}

// Whether the sum of these probabilities exceeds exp(other): log-sum-exp, up to what is common to both sides.
bool sum_exceeds(std::span<const float> scores, float other) {
  const float most = *std::ranges::max_element(scores);
  if (most == kNotAllowed) return false;
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - most);
  return static_cast<double>(most) + std::log(sum) > other;
}

}  // namespace

void apply_timestamp_rules(std::span<float> scores, std::span<const TokenId> generated, const TimestampRules& rules) {
  const auto size = static_cast<int64_t>(scores.size());
  if (rules.first < 1 || rules.first >= size) return;
  forbid(scores, rules.first - 1, rules.first);
  const size_t n = generated.size();
  const bool last_is_time = n >= 1 && rules.is_time(generated[n - 1]);
  const bool one_before_is_time = n < 2 || rules.is_time(generated[n - 2]);
  if (last_is_time && one_before_is_time) forbid(scores, rules.first, size);
  if (last_is_time && !one_before_is_time) forbid(scores, 0, rules.end);
  const auto last = std::find_if(generated.rbegin(), generated.rend(), [&](TokenId id) { return rules.is_time(id); });
  // The time that begins a text may be that which ended the one before; a text may not end when it begins.
  if (last != generated.rend()) forbid(scores, rules.first, int64_t{*last} + (last_is_time && !one_before_is_time ? 0 : 1));
  if (n == 0) {
    forbid(scores, 0, rules.first);
    if (rules.max_initial_index) forbid(scores, int64_t{rules.first} + *rules.max_initial_index + 1, size);
  }
  const std::span<float> text = scores.first(static_cast<size_t>(rules.first));
  if (sum_exceeds(scores.subspan(static_cast<size_t>(rules.first)), *std::ranges::max_element(text))) forbid(scores, 0, rules.first);
}

}  // namespace kvik::sample
