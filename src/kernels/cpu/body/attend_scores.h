#pragma once

#include "kernels/cpu/attend.h"
#include "kernels/cpu/body/math.h"
#include "kernels/cpu/body/quantize.h"

// Scores: lanes are positions, each one chain over the dimensions. Requires the vec.h of an instruction set.
namespace kvik::cpu::KVIK_ISA {

constexpr int kPageVectors = kPagePositions / kLanes;

template <int kHeads>
constexpr int score_vectors() {
  return kScoreSums / kHeads >= kPageVectors ? kPageVectors : 1;
}

// KV heads that H queries read: one for all of them, or one each.
template <int H, bool kOwnHeads>
constexpr int kv_heads() {
  return kOwnHeads ? H : 1;
}

// What is fetched into the cache meanwhile: the values of the page, evenly over the dimensions.
struct Prefetch {
  const char* at;
  int64_t bytes_each;
};

// H queries over n_vectors vectors of positions of a page, P at a time. head_step: values of T from one KV head to the next.
template <int P, class T, int H, bool kOwnHeads>
KVIK_INLINE void vector_scores(const T* keys, int64_t head_step, int dims, const float* const (&q)[H], float* const (&scores)[H],
                               Prefetch values, int n_vectors) {
  constexpr int K = kv_heads<H, kOwnHeads>();
  for (int j = 0; j < n_vectors; j += P) {
    F sum[H][P];
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < P; ++i) sum[h][i] = zero();
    const int64_t fetch = j == 0 ? values.bytes_each : 0;
    KVIK_UNROLL4
    for (int d = 0; d < dims; ++d) {
      F k[K][P];
      for (int h = 0; h < K; ++h) {
        for (int i = 0; i < P; ++i) k[h][i] = load(keys + h * head_step + d * kPagePositions + (j + i) * kLanes);
        prefetch(values.at + h * head_step * static_cast<int64_t>(sizeof(T)) + d * fetch);
      }
      for (int h = 0; h < H; ++h) {
        const F x = bcast(q[h][d]);
        for (int i = 0; i < P; ++i) sum[h][i] = fma(x, k[kOwnHeads ? h : 0][i], sum[h][i]);
      }
    }
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < P; ++i) store(scores[h] + (j + i) * kLanes, sum[h][i]);
  }
}

// H queries over one page, of which the first n_positions count: scores[h][0..n_positions), and some more.
template <class T, int H, bool kOwnHeads>
KVIK_INLINE void page_scores(const T* keys, int64_t head_step, int dims, const float* const (&q)[H], float* const (&scores)[H],
                             Prefetch values, int n_positions) {
  constexpr int P = score_vectors<H>();
  const int n_vectors = n_positions <= kLanes ? 1 : kPageVectors;
  if constexpr (P > 1) {
    if (n_vectors == 1) return vector_scores<1, T, H, kOwnHeads>(keys, head_step, dims, q, scores, values, 1);
  }
  vector_scores<P, T, H, kOwnHeads>(keys, head_step, dims, q, scores, values, n_vectors);
}

// The same of a quantized page, which is read in less time than memory needs to send the next one: so its keys are fetched as well.
struct PrefetchQ8 {
  const char *values, *keys;  // of the next page, or of the next KV head
};

// A query in int8, its dimensions padded to 4.
struct QuantizedQuery {
  const int8_t* q;
  float scale;
  int32_t sum;
};

// The keys of one page; head_step: bytes from one KV head to the next.
struct KeysQ8 {
  const uint8_t* keys;
  const float* scales;  // [32]
  int64_t head_step;
};

template <int H, bool kOwnHeads>
KVIK_INLINE void page_scores_q8(const KeysQ8& page, int groups, const QuantizedQuery* q, float* const (&scores)[H],
                                const PrefetchQ8& next) {
  constexpr int P = score_vectors<H>(), K = kv_heads<H, kOwnHeads>();
  for (int64_t j = 0; j < kPageVectors; j += P) {
    I sum[H][P];
    for (int h = 0; h < H; ++h)
      for (int i = 0; i < P; ++i) sum[h][i] = start_w8(q[h].sum);
    const int64_t lines = j == 0 ? 128 : 0;
    for (int64_t g = 0; g < groups; ++g) {
      W8 k[K][P];
      for (int h = 0; h < K; ++h) {
        for (int line = 0; line < 128; line += 64) {
          prefetch(next.values + h * page.head_step + g * lines + line);
          prefetch(next.keys + h * page.head_step + g * lines + line);
        }
        for (int i = 0; i < P; ++i) k[h][i] = load_w8(page.keys + h * page.head_step + g * kPagePositions * 4 + (j + i) * 64);
      }
      for (int h = 0; h < H; ++h) {
        const A8 x = bcast_a8(q[h].q + g * 4);
        for (int i = 0; i < P; ++i) sum[h][i] = dot_w8(sum[h][i], k[kOwnHeads ? h : 0][i], x);
      }
    }
    for (int h = 0; h < H; ++h) {
      const float* scales = page.scales + (kOwnHeads ? h * page.head_step / 4 : 0);
      for (int i = 0; i < P; ++i)
        store(scores[h] + (j + i) * kLanes, mul(mul(to_float(sum[h][i]), bcast(q[h].scale)), load(scales + (j + i) * kLanes)));
    }
  }
}

// Positions of a query inside a span, [begin, end).
struct SpanRange {
  int begin, end;
};

KVIK_INLINE F distance_biases(const AttendRule& rule, const AttendQuery& query, int64_t key) {
  const float* table = rule.distance_bias + query.head * rule.n_distances;
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const int64_t at = query.position - (key + i) - rule.first_distance;
    lanes[i] = table[at < 0 ? 0 : at < rule.n_distances ? at : rule.n_distances - 1];
  }
  return load(lanes);
}

KVIK_INLINE F rounded(F x, const Rounding* roundings, int n) {
  for (int i = 0; i < n; ++i) {
    const Rounding& r = roundings[i];
    x = mul(min(max(round_even(div(x, bcast(r.step))), bcast(r.low)), bcast(r.high)), bcast(r.unit));
  }
  return x;
}

// 16 scores from `key` on, with what the rule makes of them.
KVIK_INLINE F ruled_scores(F score, const AttendRule& rule, const AttendQuery& query, int64_t key, F lane_index) {
  F s = rounded(mul(score, bcast(rule.scale)), rule.score_roundings, rule.n_score_roundings);
  if (rule.soft_cap != 0.0f) s = mul(tanh(div(s, bcast(rule.soft_cap))), bcast(rule.soft_cap));
  if (rule.slopes != nullptr) {
    const F distance = add(lane_index, bcast(static_cast<float>(key - query.position)));
    s = fma(bcast(rule.slopes[query.head]), distance, s);
  }
  if (rule.distance_bias != nullptr) s = add(s, distance_biases(rule, query, key));
  if (query.bias != nullptr) {
    const int64_t before = query.first_key - key, upto = query.n_keys - key;
    float lanes[kLanes] = {};
    for (int i = 0; i < kLanes; ++i)
      if (i >= before && i < upto) lanes[i] = query.bias[key + i];
    s = add(s, load(lanes));
  }
  return s;
}

// A rule that only scales. Then the loop over scores has no branches but one.
KVIK_INLINE bool only_scales(const AttendRule& rule, const AttendQuery& query) {
  return rule.n_score_roundings == 0 && rule.soft_cap == 0.0f && rule.slopes == nullptr && rule.distance_bias == nullptr &&
         query.bias == nullptr;
}

// Scores of a range become what the rule makes of them; returns the largest of each lane.
template <class Rule>
KVIK_INLINE F apply_rule(float* scores, SpanRange range, int64_t span_begin, const AttendQuery& query, Rule rule) {
  alignas(64) static constexpr float kIndex[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const F lane_index = load(kIndex), nothing = bcast(-kInfinity);
  F most = nothing;
  for (int i = range.begin; i < range.end; i += kLanes) {
    const int64_t before = query.first_key - span_begin - i, upto = query.n_keys - span_begin - i;
    F s = rule(load(scores + i), span_begin + i, lane_index);
    if (before > 0 || upto < kLanes) {
      s = select(less(lane_index, bcast(static_cast<float>(before))), nothing, s);
      s = select(less(lane_index, bcast(static_cast<float>(upto))), s, nothing);
    }
    store(scores + i, s);
    most = max(s, most);
  }
  return most;
}

// Scores of a span become rounded weights. The part is one of many with the same maximum, so that merging adds them up.
KVIK_INLINE void round_weights(float* scores, SpanRange range, const AttendRule& rule, const AttendQuery& query, float* part) {
  for (int i = range.begin; i < range.end; i += kLanes) {
    const F weight = div(exp(sub(load(scores + i), bcast(query.largest))), bcast(query.total));
    store(scores + i, rounded(weight, rule.weight_roundings, rule.n_weight_roundings));
  }
  part[0] = query.largest;
  part[1] = 0.0f;
}

// Scores of a span become exponentials; writes the part's maximum and sum.
KVIK_INLINE void soften(float* scores, SpanRange range, int64_t span_begin, const AttendRule& rule, const AttendQuery& query, float* part) {
  range.begin = range.begin / kLanes * kLanes;
  const F scale = bcast(rule.scale);
  const F most = only_scales(rule, query) ? apply_rule(scores, range, span_begin, query, [&](F s, int64_t, F) { return mul(s, scale); })
                                          : apply_rule(scores, range, span_begin, query, [&](F s, int64_t key, F lane_index) {
                                              return ruled_scores(s, rule, query, key, lane_index);
                                            });
  if (query.total != 0.0f) return round_weights(scores, range, rule, query, part);
  const float largest = reduce_max(most);
  const F base = bcast(largest == -kInfinity ? 0.0f : largest);  // all hidden: exponentials of -inf, which are 0
  F sum = zero();
  for (int i = range.begin; i < range.end; i += kLanes) {
    const F e = exp_not_positive(sub(load(scores + i), base));
    store(scores + i, e);
    sum = add(sum, e);
  }
  part[0] = largest;
  part[1] = reduce_add(sum);
}

}  // namespace kvik::cpu::KVIK_ISA
