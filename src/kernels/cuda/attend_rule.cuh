#pragma once

#include "kernels/cuda/common.cuh"

// What an attention sees, and how its scores are changed (AttendRule).
namespace kvik::cuda {

constexpr float kLargestHalf = 65504.0f;  // that a page holds

// The positions that a row of an attention sees.
struct Visible {
  int first, end;
};
__device__ __forceinline__ Visible visible_keys(const AttendRule& rule, const Row& row) {
  const int position = row.position, end = rule.from_source ? row.n_source : rule.causal ? position + 1 : row.n_keys;
  return {rule.window > 0 && !rule.from_source ? max(0, position + 1 - rule.window) : 0, end};
}

// Whether a score is only scaled.
__device__ __forceinline__ bool is_plain(const AttendRule& rule) {
  return rule.n_roundings == 0 && rule.soft_cap == 0.0f && rule.slopes == Address::kNone && rule.distance_bias == Address::kNone;
}

__device__ __noinline__ float ruled_score(const AttendRule& rule, float s, int head, int position, int key) {
  s = s * rule.scale;
#pragma unroll 1
  for (int i = 0; i < rule.n_roundings; ++i) s = rounded_of(s, pointer<kvik::Rounding>(rule.roundings)[i]);
  if (rule.soft_cap != 0.0f) s = tanh_of(s / rule.soft_cap) * rule.soft_cap;
  if (rule.slopes != Address::kNone) s = fused(pointer<float>(rule.slopes)[head], static_cast<float>(key - position), s);
  if (rule.distance_bias != Address::kNone) {
    const int distance = min(max(position - key - rule.first_distance, 0), rule.n_distances - 1);
    s = s + pointer<float>(rule.distance_bias)[static_cast<int64_t>(head) * rule.n_distances + distance];
  }
  return s;
}

// Weighted values as they leave an attention: factor and divisor of a head, with its sink.
struct Quotient {
  float factor, divisor;
};
__device__ __forceinline__ Quotient quotient_of(const AttendRule& rule, int head, float largest, float sum) {
  Quotient q{1.0f, sum};
  if (rule.sinks != Address::kNone) {
    const float sink = pointer<float>(rule.sinks)[head], most = sink > largest ? sink : largest;
    q.factor = part_weight(largest, most);
    q.divisor = fused(sum, q.factor, kWeightScale * part_weight(sink, most));
  }
  if (q.divisor == 0.0f) q.divisor = 1.0f;
  return q;
}

}  // namespace kvik::cuda
