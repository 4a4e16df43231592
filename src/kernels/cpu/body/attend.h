#pragma once

#include "kernels/cpu/body/attend_scores.h"
#include "kernels/cpu/body/declarations.h"

// Attention over one span: scores, exponentials, then values with lanes = dimensions, each a chain over positions in order. How many
// queries share the reading of keys and values changes no bit.
namespace kvik::cpu::KVIK_ISA {

template <class T>
struct ValueSource {
  const KvPages& kv;
  int64_t offset;        // of the values in a page, with the layer's and head's own
  int64_t first_page;    // of the span
  int stride;            // values from position to position
  int n_next_pages = 0;  // of the next span, whose keys are fetched into the cache meanwhile

  int64_t head_step() const { return kv.head_step / static_cast<int64_t>(sizeof(T)); }
  ValueSource of_query(int h) const { return {kv, offset + h * kv.head_step, first_page, stride}; }
  const T* row(int i) const {
    return reinterpret_cast<const T*>(kv.pages[first_page + i / kPagePositions] + offset) + (i % kPagePositions) * stride;
  }
  // What is fetched with the value of position i: keys of the next span, or the value itself.
  const T* fetched(int i) const {
    if (i / kPagePositions >= n_next_pages) return row(i);
    const std::byte* page = kv.pages[first_page + kSpanPositions / kPagePositions + i / kPagePositions];
    return reinterpret_cast<const T*>(page + kv.offset) + (i % kPagePositions) * stride;
  }
};

// out[h] += p[h][i] * V[i] for positions [begin, end) of the span and C vectors of dimensions from d on.
template <class T, int H, int C, bool kOwnHeads>
KVIK_INLINE void value_vectors(const ValueSource<T>& v, SpanRange range, const float* const (&p)[H], float* const (&out)[H], int d) {
  constexpr int K = kv_heads<H, kOwnHeads>();
  const int64_t head_step = v.head_step();
  F sum[H][C];
  for (int h = 0; h < H; ++h)
    for (int c = 0; c < C; ++c) sum[h][c] = load(out[h] + d + c * kLanes);
  for (int i = range.begin; i < range.end;) {
    const int page = i / kPagePositions, page_end = (page + 1) * kPagePositions, end = page_end < range.end ? page_end : range.end;
    const T *row = v.row(i) + d, *fetched = v.fetched(i) + d;
    constexpr int kLine = 64 / sizeof(T);
    KVIK_UNROLL4
    for (; i < end; ++i, row += v.stride, fetched += v.stride) {
      for (int c = 0; c < C * kLanes; c += kLine) prefetch(reinterpret_cast<const char*>(fetched + c));
      F x[K][C];
      for (int h = 0; h < K; ++h)
        for (int c = 0; c < C; ++c) x[h][c] = load(row + h * head_step + c * kLanes);
      for (int h = 0; h < H; ++h) {
        const F w = bcast(p[h][i]);
        for (int c = 0; c < C; ++c) sum[h][c] = fma(w, x[kOwnHeads ? h : 0][c], sum[h][c]);
      }
    }
  }
  for (int h = 0; h < H; ++h)
    for (int c = 0; c < C; ++c) store(out[h] + d + c * kLanes, sum[h][c]);
}

// As many vectors at a time as the sums allow, and as are left: fewer chains than that would wait for one another.
template <class T, int H, int C, bool kOwnHeads>
KVIK_INLINE int value_vectors_from(const ValueSource<T>& v, SpanRange range, const float* const (&p)[H], float* const (&out)[H], int d) {
  for (; d + C * kLanes <= v.stride; d += C * kLanes) value_vectors<T, H, C, kOwnHeads>(v, range, p, out, d);
  if constexpr (C > 1) { d = value_vectors_from<T, H, (C > 4 ? 4 : C - 1), kOwnHeads>(v, range, p, out, d); }
  return d;
}

template <class T, int H, bool kOwnHeads>
KVIK_INLINE void add_values(const ValueSource<T>& v, SpanRange range, const float* const (&p)[H], float* const (&out)[H]) {
  if (range.begin < range.end) value_vectors_from<T, H, kValueSums / H, kOwnHeads>(v, range, p, out, 0);
}

// Queries that see different ranges share what they have in common and do the rest alone: a value that a query does not see is not
// even multiplied by zero, for it may be infinite.
template <class T, int H, bool kOwnHeads>
KVIK_INLINE void values_of(const ValueSource<T>& v, const SpanRange* ranges, const float* const (&p)[H], float* const (&out)[H]) {
  SpanRange common = ranges[0];
  for (int h = 1; h < H; ++h) {
    common.begin = ranges[h].begin > common.begin ? ranges[h].begin : common.begin;
    common.end = ranges[h].end < common.end ? ranges[h].end : common.end;
  }
  const bool apart = common.begin >= common.end;
  for (int h = 0; h < H; ++h) {
    const float* const one_p[1] = {p[h]};
    float* const one_out[1] = {out[h]};
    const SpanRange first = apart ? ranges[h] : SpanRange{ranges[h].begin, common.begin};
    add_values<T, 1, false>(v.of_query(h), first, one_p, one_out);
  }
  if (apart) return;
  add_values<T, H, kOwnHeads>(v, common, p, out);
  for (int h = 0; h < H; ++h) {
    const float* const one_p[1] = {p[h]};
    float* const one_out[1] = {out[h]};
    add_values<T, 1, false>(v.of_query(h), {common.end, ranges[h].end}, one_p, one_out);
  }
}

// At most kValueHeads of the H heads at a time.
template <class T, int H, bool kOwnHeads>
KVIK_INLINE void all_values(const ValueSource<T>& v, const SpanRange* ranges, const float* const* p, float* const* out) {
  if constexpr (H > kValueHeads) {
    all_values<T, kValueHeads, kOwnHeads>(v, ranges, p, out);
    all_values<T, H - kValueHeads, kOwnHeads>(v.of_query(kValueHeads), ranges + kValueHeads, p + kValueHeads, out + kValueHeads);
  } else {
    const float* tile_p[H];
    float* tile_out[H];
    for (int h = 0; h < H; ++h) {
      tile_p[h] = p[h];
      tile_out[h] = out[h];
    }
    const float* const(&const_p)[H] = tile_p;
    values_of<T, H, kOwnHeads>(v, ranges, const_p, tile_out);
  }
}

// One tile of H queries over one span; every one of them sees something of it.
struct SpanTask {
  const KvLayout& layout;
  const AttendRule& rule;
  const KvPages& kv;
  int64_t span;  // index; it begins at position span * kSpanPositions
  bool leads;    // the first tile of its span
};

KVIK_INLINE SpanRange range_in_span(const AttendQuery& query, int64_t span) {
  const int64_t begin = query.first_key - span * kSpanPositions, end = query.n_keys - span * kSpanPositions;
  return {static_cast<int>(begin < 0 ? 0 : begin), static_cast<int>(end < kSpanPositions ? end : kSpanPositions)};
}

template <int H>
struct Tile {
  alignas(64) float scores[H][kSpanPositions];
  SpanRange ranges[H];
  SpanRange pages;  // that at least one query looks into
  int end;          // of the positions that at least one query sees
};

template <int H>
KVIK_INLINE void set_ranges(Tile<H>& tile, const AttendQuery* queries, int64_t span) {
  SpanRange hull = {kSpanPositions, 0};
  for (int h = 0; h < H; ++h) {
    const SpanRange r = tile.ranges[h] = range_in_span(queries[h], span);
    hull.begin = r.begin < hull.begin ? r.begin : hull.begin;
    hull.end = r.end > hull.end ? r.end : hull.end;
  }
  tile.pages = {hull.begin / kPagePositions, (hull.end + kPagePositions - 1) / kPagePositions};
  tile.end = hull.end;
}

// Quantized values: each position's weight takes on its scale. Lanes beyond the range hold what no one reads. head_offset: bytes.
KVIK_INLINE void scale_weights(const SpanTask& task, int64_t head_offset, float* weights, SpanRange range) {
  const int64_t first_page = task.span * (kSpanPositions / kPagePositions);
  for (int i = range.begin / kLanes * kLanes; i < range.end; i += kLanes) {
    const std::byte* page = task.kv.pages[first_page + i / kPagePositions] + task.kv.offset + head_offset + task.layout.value_scales_offset;
    store(weights + i, mul(load(weights + i), load(reinterpret_cast<const float*>(page) + i % kPagePositions)));
  }
}

// Pages of the next span that the query sees, whose keys have about as many bytes as values. Their keys are fetched while this span's
// values are added up: scores alone, which fetch the values, take less time than memory needs for both.
template <bool kOwnHeads>
KVIK_INLINE int next_pages(const SpanTask& task, const AttendQuery& query) {
  if (kOwnHeads || !task.leads) return 0;
  const int64_t left = query.n_keys - (task.span + 1) * kSpanPositions, n = (left + kPagePositions - 1) / kPagePositions;
  return static_cast<int>(n < 0 ? 0 : n < kSpanPositions / kPagePositions ? n : kSpanPositions / kPagePositions);
}

template <class T, int H, bool kOwnHeads>
KVIK_INLINE void finish_span(const SpanTask& task, Tile<H>& tile, const AttendQuery* queries, float* const* parts, bool scaled_values) {
  const int64_t first_page = task.span * (kSpanPositions / kPagePositions);
  const float* p[H];
  float* out[H];
  for (int h = 0; h < H; ++h) {
    soften(tile.scores[h], tile.ranges[h], task.span * kSpanPositions, task.rule, queries[h], parts[h]);
    p[h] = tile.scores[h];
    out[h] = parts[h] + kPartHeader;
    for (int d = 0; d < task.layout.value_stride; d += kLanes) store(out[h] + d, zero());
  }
  if (task.rule.n_weight_roundings > 0 && queries[0].total == 0.0f) return;
  if (scaled_values) {
    for (int h = 0; h < H; ++h) scale_weights(task, h * task.kv.head_step, tile.scores[h], tile.ranges[h]);
  }
  all_values<T, H, kOwnHeads>(
      {task.kv, task.kv.offset + task.layout.values_offset, first_page, task.layout.value_stride, next_pages<kOwnHeads>(task, queries[0])},
      tile.ranges, p, out);
}

template <class T, int H, bool kOwnHeads>
void attend_tile(const SpanTask& task, const AttendQuery* queries, float* const* parts) {
  Tile<H> tile;
  set_ranges(tile, queries, task.span);
  const float* q[H];
  for (int h = 0; h < H; ++h) q[h] = queries[h].q;
  const int64_t first_page = task.span * (kSpanPositions / kPagePositions);
  const int64_t value_bytes = task.layout.value_stride * static_cast<int64_t>(sizeof(T));
  for (int page = tile.pages.begin; page < tile.pages.end; ++page) {
    const std::byte* at = task.kv.pages[first_page + page] + task.kv.offset;
    float* scores[H];
    for (int h = 0; h < H; ++h) scores[h] = tile.scores[h] + page * kPagePositions;
    const float* const(&const_q)[H] = q;
    const int left = tile.end - page * kPagePositions, n_positions = left < kPagePositions ? left : kPagePositions;
    const int64_t fetch = n_positions * value_bytes / task.layout.key_dim;
    page_scores<T, H, kOwnHeads>(reinterpret_cast<const T*>(at), task.kv.head_step / static_cast<int64_t>(sizeof(T)), task.layout.key_dim,
                                 const_q, scores, {reinterpret_cast<const char*>(at + task.layout.values_offset), fetch}, n_positions);
  }
  finish_span<T, H, kOwnHeads>(task, tile, queries, parts, false);
}

template <int H, bool kOwnHeads>
void attend_tile_q8(const SpanTask& task, const AttendQuery* queries, float* const* parts) {
  Tile<H> tile;
  set_ranges(tile, queries, task.span);
  alignas(64) int8_t bytes[H][kMostQuantizedDim];
  QuantizedQuery q[H];
  for (int h = 0; h < H; ++h) {
    const QuantizedHead head = quantize_head(queries[h].q, task.layout.key_dim, bytes[h]);
    q[h] = {bytes[h], head.scale, head.sum};
  }
  const int64_t first_page = task.span * (kSpanPositions / kPagePositions);
  const std::byte* first_at = task.kv.pages[first_page + tile.pages.begin] + task.kv.offset;
  for (int page = tile.pages.begin; page < tile.pages.end; ++page) {
    const std::byte* at = task.kv.pages[first_page + page] + task.kv.offset;
    float* scores[H];
    for (int h = 0; h < H; ++h) scores[h] = tile.scores[h] + page * kPagePositions;
    const bool is_last = page + 1 == tile.pages.end;
    const char* next =
        reinterpret_cast<const char*>(is_last ? first_at + task.layout.head_bytes : task.kv.pages[first_page + page + 1] + task.kv.offset);
    const KeysQ8 keys{reinterpret_cast<const uint8_t*>(at), reinterpret_cast<const float*>(at + task.layout.key_scales_offset),
                      task.kv.head_step};
    page_scores_q8<H, kOwnHeads>(keys, (task.layout.key_dim + 3) / 4, q, scores,
                                 {reinterpret_cast<const char*>(at + task.layout.values_offset), next});
  }
  finish_span<int8_t, H, kOwnHeads>(task, tile, queries, parts, true);
}

template <int H, bool kOwnHeads>
KVIK_INLINE void attend_some(const SpanTask& task, const AttendQuery* queries, float* const* parts) {
  switch (task.layout.format) {
    case KvFormat::kF32: return attend_tile<float, H, kOwnHeads>(task, queries, parts);
    case KvFormat::kF16: return attend_tile<Half, H, kOwnHeads>(task, queries, parts);
    case KvFormat::kQ8: return attend_tile_q8<H, kOwnHeads>(task, queries, parts);
  }
}

// Eight queries at a time if there are registers for them, then four, two and one.
template <bool kOwnHeads>
void attend_tiles(const SpanTask& task, const AttendQuery* queries, int64_t n, float* const* parts) {
  for (int64_t i = 0; i < n;) {
    const int64_t left = n - i;
    const KvPages kv{task.kv.pages, task.kv.offset + i * task.kv.head_step, task.kv.head_step};
    const SpanTask rest{task.layout, task.rule, kv, task.span, task.leads && i == 0};
    if constexpr (kScoreSums >= 16 && !kOwnHeads) {
      if (left >= 8) {
        attend_some<8, false>(rest, queries + i, parts + i);
        i += 8;
        continue;
      }
    }
    if (kScoreHeads >= 4 && left >= 4) {
      attend_some<(kScoreHeads >= 4 ? 4 : 1), kOwnHeads>(rest, queries + i, parts + i);
      i += 4;
    } else if (left >= 2) {
      attend_some<2, kOwnHeads>(rest, queries + i, parts + i);
      i += 2;
    } else {
      attend_some<1, false>(rest, queries + i, parts + i);
      i += 1;
    }
  }
}

// parts[i] for query i; a query that sees nothing of the span has a part that changes nothing.
void attend(const KvLayout& layout, const AttendRule& rule, const KvPages& kv, int64_t span, const AttendQuery* queries, int64_t n,
            float* const* parts) {
  SpanTask task{layout, rule, kv, span, true};
  if (kv.head_step != 0) return attend_tiles<true>(task, queries, n, parts);
  if constexpr (kScoreHeads == 7) {
    for (; n >= kScoreHeads && n % 4 != 0; n -= kScoreHeads, queries += kScoreHeads, parts += kScoreHeads) {
      attend_some<kScoreHeads, false>(task, queries, parts);
      task.leads = false;
    }
  }
  attend_tiles<false>(task, queries, n, parts);
}

KVIK_INLINE float exp1(float x) {
  float lanes[kLanes];
  store(lanes, exp(bcast(x)));
  return lanes[0];
}

// What a part weighs against the largest score so far; hidden throughout, 0.
KVIK_INLINE float weight_of(float largest, float of_all) {
  const float x = largest - (of_all == -kInfinity ? 0.0f : of_all);
  return x == 0.0f ? 1.0f : exp1(x);
}

// The parts of a query are merged in the order of their spans.
void merge(float* into, const float* part, int64_t value_stride) {
  const float largest = part[0] > into[0] ? part[0] : into[0];
  const float a = weight_of(into[0], largest), b = weight_of(part[0], largest);
  into[0] = largest;
  into[1] = fma1(part[1], b, into[1] * a);
  const F va = bcast(a), vb = bcast(b);
  for (int64_t d = kPartHeader; d < kPartHeader + value_stride; d += kLanes)
    store(into + d, fma(load(part + d), vb, mul(load(into + d), va)));
}

// out[0..value_dim) from the merged parts and the sink; zeros where nothing was seen.
void finish(const float* part, const float* sink, int64_t value_dim, float* out) {
  float total = part[1], factor = 1.0f;
  if (sink != nullptr) {
    const float largest = *sink > part[0] ? *sink : part[0];
    factor = weight_of(part[0], largest);
    total = fma1(total, factor, weight_of(*sink, largest));
  }
  if (total == 0.0f) total = 1.0f;
  const F f = bcast(factor), t = bcast(total);
  for (int64_t d = 0; d < value_dim; d += kLanes) {
    const F y = div(mul(load(part + kPartHeader + d), f), t);
    const int64_t left = value_dim - d;
    if (left >= kLanes)
      store(out + d, y);
    else
      store_n(out + d, y, static_cast<int>(left));
  }
}

}  // namespace kvik::cpu::KVIK_ISA
