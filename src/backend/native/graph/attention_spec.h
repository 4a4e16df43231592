#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace kvik::native {

// What one attention computes, independent of the nodes in the graph. Scores are cap(rounded(scale * q.k)) + bias(head, distance), distance
// = query position - key position. Used by both program and plan.
struct AttentionSpec {
  bool from_source = false;  // cross attention: keys and values are rows of the source
  int64_t n_heads = 0, n_kv_heads = 0, key_dim = 0, value_dim = 0;
  std::vector<int32_t> kv_head_of;  // [n_heads]; empty: n_heads / n_kv_heads adjacent heads share one

  float scale = 1.0f;
  std::vector<Rounding> score_roundings;   // one after the other; empty: not rounded
  std::vector<Rounding> weight_roundings;  // the same for the output of the softmax; then without sinks
  float soft_cap = 0.0f;                   // 0: none
  bool causal = true;                      // false: all keys of the sequence
  int64_t window = 0;                      // sees distances below it; 0: all
  std::vector<float> slopes;               // [n_heads], bias = -slope * distance; empty: none
  std::vector<float> distance_bias;  // [n_heads][n], at distance - first_distance, clamped at both ends; -inf hides a key; empty: none
  int64_t first_distance = 0;
  std::vector<float> sinks;  // [n_heads]; empty: none

  std::string words;  // "causal, window 4096", for display
  std::string node;   // for messages

  bool operator==(const AttentionSpec&) const = default;
};

}  // namespace kvik::native
