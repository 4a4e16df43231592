#pragma once

#include "kernels/cuda/decode_span.cuh"

// Decode attention of the common kind (decode.cu has all others): f16, heads of 64 or 128, scores that are only scaled, rotary of whole
// heads by halves. What a row waits for is a chain of instructions, so there are few of them behind the wait: addresses are found before
// it.
namespace kvik::cuda {

// Where the key and the value of the row's own position go.
struct OwnPlace {
  uint64_t page;          // of the position; not read unless the block owns it
  uint16_t *key, *value;  // in shared memory
};
__device__ __forceinline__ uint64_t page_of(const uint64_t (&pages)[kPagesASpan], int position) {
  const int page = position / kPagePositions;
  return page < 2 ? page == 0 ? pages[0] : pages[1] : page == 2 ? pages[2] : pages[3];
}

// A head of the row: where it is, and where it goes.
template <int kDim>
struct HeadTask {
  static constexpr int kCount = kDim / 32;
  const float* x;
  float* turned;   // the rotated head in memory, or none
  uint16_t* kept;  // its place in a page, or none
  uint16_t* to;    // in shared memory
  bool turns, is_query;
  float cos[kCount / 2], sin[kCount / 2];

  __device__ __forceinline__ void load_angles(const RotaryOf& rotary, const RowAt& row) {
    turns = rotary.there;
    if (!turns) return;
    const int lane = threadIdx.x % 32;
    const float *cos_row = row_of<float>(rotary.cos, row) + lane, *sin_row = row_of<float>(rotary.sin, row) + lane;
#pragma unroll
    for (int c = 0; c < kCount / 2; ++c) cos[c] = __ldcg(cos_row + 32 * c), sin[c] = __ldcg(sin_row + 32 * c);
  }

  __device__ __forceinline__ HeadTask(const DecodeLaunch& launch, const DecodeWork& work, const OwnPlace& own, unsigned char* shared,
                                      const DecodeShared& kept_, int task) {
    const int lane = threadIdx.x % 32;
    const bool leads = work.place % launch.tiles_a_kv_head == 0;
    const HeadKind kind = kind_of(task, work);
    is_query = kind == HeadKind::kQuery;
    turned = nullptr, kept = nullptr, turns = false;
    if (is_query) {
      const int head = kept_.head[task] * kDim + lane;
      x = row_of<float>(launch.queries.there ? launch.queries.x : launch.step.q, work.row) + head;
      if (launch.queries.there && work.owns) turned = row_of<float>(launch.queries.out, work.row) + head;
      to = reinterpret_cast<uint16_t*>(shared + launch.queries_at) + task * (kDim + 8) + lane;
      load_angles(launch.queries, work.row);
      return;
    }
    const bool is_key = kind == HeadKind::kKey;
    const int head = work.kv_head * kDim + lane;
    x = row_of<float>(is_key ? launch.keys.there ? launch.keys.x : launch.append.k : launch.append.v, work.row) + head;
    if (is_key && launch.keys.there && leads) turned = row_of<float>(launch.keys.out, work.row) + head;
    to = (is_key ? own.key : own.value) + lane;
    if (is_key) load_angles(launch.keys, work.row);
    const int64_t offset =
        launch.step.page_offset + work.kv_head * launch.step.layout.head_bytes + (is_key ? 0 : launch.step.layout.values_offset);
    if (leads) kept = reinterpret_cast<uint16_t*>(own.page + offset) + work.row.row->position % kPagePositions * kDim + lane;
  }

  __device__ __forceinline__ void run(float* scale) {
    float v[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) v[c] = __ldcg(x + 32 * c);
    if (turns) {
#pragma unroll
      for (int c = 0; c < kCount / 2; ++c) {
        const float a = v[c], b = v[c + kCount / 2];
        v[c] = fused(-b, sin[c], a * cos[c]);
        v[c + kCount / 2] = fused(a, sin[c], b * cos[c]);
      }
    }
    if (is_query) {
      uint32_t largest = 0;
#pragma unroll
      for (int c = 0; c < kCount; ++c) largest = max(largest, bits_of(v[c]) & 0x7fffffffu);
      const int32_t exponent = half_exponent(__reduce_max_sync(~0u, largest));
      const float factor = power_of_two(exponent);
#pragma unroll
      for (int c = 0; c < kCount; ++c) to[32 * c] = half_bits(v[c] * factor);
      if (threadIdx.x % 32 == 0) *scale = power_of_two(-exponent);
    } else {
#pragma unroll
      for (int c = 0; c < kCount; ++c) to[32 * c] = half_bits(clip_of(v[c], -kLargestHalf, kLargestHalf));
    }
    if (turned != nullptr) {
#pragma unroll
      for (int c = 0; c < kCount; ++c) __stcg(turned + 32 * c, v[c]);
    }
    if (kept != nullptr) {
#pragma unroll
      for (int c = 0; c < kCount; ++c) __stcg(kept + 32 * c, to[32 * c]);
    }
  }
};

// The heads of the row, of which each warp has some, as soon as they are there.
template <int kDim>
__device__ __forceinline__ void take_heads(const DecodeLaunch& launch, const DecodeWork& work, const OwnPlace& own, unsigned char* shared,
                                           DecodeShared& kept) {
  const int warp = threadIdx.x / 32, n_tasks = work.n_heads + (work.owns ? 2 : 0);
  HeadTask<kDim> task(launch, work, own, shared, kept, warp);
  wait_for_previous();
  if (warp < n_tasks) task.run(&kept.scale[warp]);
#pragma unroll 1
  for (int more = warp + kDecodeWarps; more < n_tasks; more += kDecodeWarps)
    HeadTask<kDim>(launch, work, own, shared, kept, more).run(&kept.scale[more % kDecodeHeads]);
}

// What was appended also goes into the pages of the row's branches.
template <int kDim>
__device__ __noinline__ void append_to_branches(const DecodeLaunch& launch, DecodeWork work, OwnPlace own) {
  const Row& row = *work.row.row;
  for (int i = threadIdx.x; i < row.n_branches * 2 * kDim; i += kDecodeThreads) {
    const int d = i % kDim, is_value = i / kDim % 2, branch = i / kDim / 2;
    const int64_t slot = __ldcg(pointer<int32_t>(launch.append.branches) + row.first_branch + branch);
    const uint64_t page =
        __ldcg(pointer<uint64_t>(launch.append.pages.pages) + slot * launch.append.pages.n_pages + row.position / kPagePositions);
    const int64_t offset =
        launch.step.page_offset + work.kv_head * launch.step.layout.head_bytes + (is_value != 0 ? launch.step.layout.values_offset : 0);
    __stcg(reinterpret_cast<uint16_t*>(page + offset) + row.position % kPagePositions * kDim + d, (is_value != 0 ? own.value : own.key)[d]);
  }
}

// Scores become weights, as soften() does for all rules. First the largest of each warp; read_largest() is behind a barrier.
__device__ __forceinline__ void scale_plain(const bool (&seen)[4], float rule_scale, float (&scores)[4], DecodeShared& kept) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const float2 head_scales = *reinterpret_cast<const float2*>(&kept.scale[2 * t]);
  float largest[2] = {-infinity(), -infinity()};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    scores[i] = scores[i] * (i % 2 == 0 ? head_scales.x : head_scales.y) * rule_scale;
    if (seen[i] && scores[i] > largest[i % 2]) largest[i % 2] = scores[i];
  }
#pragma unroll
  for (int step = 4; step < 32; step *= 2)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float other = __shfl_xor_sync(~0u, largest[h], step);
      if (other > largest[h]) largest[h] = other;
    }
  if (g == 0) *reinterpret_cast<float2*>(&kept.largest[warp][2 * t]) = make_float2(largest[0], largest[1]);
}

// Returns the largest scores of heads 2t and 2t + 1.
__device__ __forceinline__ float2 weigh_plain(const bool (&seen)[4], const float (&scores)[4], uint16_t* weights,
                                              const DecodeShared& kept) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float largest[2] = {-infinity(), -infinity()};
#pragma unroll
  for (int i = 0; i < kDecodeWarps; ++i) {
    const float2 other = *reinterpret_cast<const float2*>(&kept.largest[i][2 * t]);
    if (other.x > largest[0]) largest[0] = other.x;
    if (other.y > largest[1]) largest[1] = other.y;
  }
  uint16_t* at = weights + 2 * t * kWeightStride + warp * 16 + g;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float base = largest[i % 2] == -infinity() ? 0.0f : largest[i % 2];
    at[i % 2 * kWeightStride + i / 2 * 8] = half_bits(seen[i] ? exp_of_negative(scores[i] - base) * kWeightScale : 0.0f);
  }
  return make_float2(largest[0], largest[1]);
}

// How much each of the n spans of a group weighs, of each head: what was merged before it, and the span.
__device__ __forceinline__ void weigh_spans(int n, float2 (*weights)[kDecodeHeads], const DecodeShared& kept) {
  if (threadIdx.x >= kSpansAGroup * kDecodeHeads) return;
  const auto* stats = reinterpret_cast<const float*>(kept.stats);  // [span][pair of heads][largest of two, sums of two]
  const int head = threadIdx.x % kDecodeHeads, span = threadIdx.x / kDecodeHeads, at = head / 2 * 4 + head % 2;
  float before = -infinity(), most = -infinity();
#pragma unroll
  for (int i = 0; i < kSpansAGroup; ++i) {
    const float largest = stats[min(i, n - 1) * 16 + at];
    if (i > span || i >= n) continue;
    before = most;
    if (largest > most) most = largest;
  }
  if (span < n) weights[span][head] = make_float2(part_weight(before, most), part_weight(stats[span * 16 + at], most));
}

// As merge_group(), with a thread for each value: first how much each span weighs, of each head, then the values.
template <int kDim>
__device__ __forceinline__ void merge_spans(const DecodeLaunch& launch, const DecodeWork& work, const float* inbox,
                                            float2 (*weights)[kDecodeHeads], const DecodeShared& kept) {
  constexpr int kTiles = kDim / 16;
  const int first = work.first_of_group(), n = work.end_of_group() - first, own = work.span - first, slots = (kTiles + n - 1) / n;
  const bool whole = work.first_span / kSpansAGroup == (work.end_span - 1) / kSpansAGroup;
  const auto* stats = reinterpret_cast<const float*>(kept.stats);
  weigh_spans(n, weights, kept);
  __syncthreads();
  const int lane = threadIdx.x / 4 % 32, component = threadIdx.x % 4, head = 2 * (lane % 4) + component % 2,
            dim = lane / 4 + component / 2 * 8;
  const int at = head / 2 * 4 + head % 2;
  if (head >= work.n_heads) return;
#pragma unroll 1
  for (int slot = threadIdx.x / 128; slot * n + own < kTiles; slot += kDecodeThreads / 128) {
    const float* from = inbox + slot * 128 + threadIdx.x % 128;
    float value = from[0], sum = stats[at + 2], most = stats[at];
#pragma unroll
    for (int i = 1; i < kSpansAGroup; ++i) {
      if (i >= n) break;
      const float2 weight = weights[i][head];
      value = fused(from[i * slots * 128], weight.y, value * weight.x);
      sum = fused(stats[i * 16 + at + 2], weight.y, sum * weight.x);
      if (stats[i * 16 + at] > most) most = stats[i * 16 + at];
    }
    const int index = kept.head[head], element = (slot * n + own) * 16 + dim;
    if (whole) {
      const Quotient q = quotient_of(launch.step.rule, index, most, sum);
      __stcg(row_of<float>(launch.out, work.row) + index * kDim + element, value * q.factor / q.divisor);
    } else {
      float* part = group_part(launch.step, work, index, work.group());
      __stcg(part + 2 + element, value);
      if (element == 0) __stcg(reinterpret_cast<float2*>(part), make_float2(most, sum));
    }
  }
}

// As merge_groups(), with a warp for each head.
template <int kDim, int kAtOnce>
__device__ __forceinline__ void merge_all(const DecodeLaunch& launch, const DecodeWork& work, const DecodeShared& kept) {
  constexpr int kCount = kDim / 32;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp >= work.n_heads) return;
  const Attend& step = launch.step;
  const int first = work.first_span / kSpansAGroup, n = (work.end_span - 1) / kSpansAGroup + 1 - first, head = kept.head[warp];
  const float* parts = group_part(step, work, head, first);
  const int64_t stride = static_cast<int64_t>(kSpansAGroup / step.parts.spans_a_part) * (2 + kDim);
  float most = -infinity(), sum = 0.0f, value[kCount] = {};
  const auto load = [&](int at, float(&part)[kAtOnce][kCount]) {
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
#pragma unroll
      for (int c = 0; c < kCount; ++c) part[j][c] = __ldcg(parts + min(at + j, n - 1) * stride + 2 + lane + 32 * c);
  };
#pragma unroll 1
  for (int base = 0; base < n; base += 32) {
    float part[kAtOnce][kCount];
    load(base, part);  // while it is found how much they weigh
    const float2 stats =
        base + lane < n ? __ldcg(reinterpret_cast<const float2*>(parts + (base + lane) * stride)) : make_float2(-infinity(), 0.0f);
    const Weighed weighed = weigh_in_order<1>(stats.x, most);
#pragma unroll 1
    for (int i = 0; i < min(32, n - base); i += kAtOnce) {
      if (i > 0) load(base + i, part);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const float before = __shfl_sync(~0u, weighed.before, i + j), weight = __shfl_sync(~0u, weighed.part, i + j),
                    part_sum = __shfl_sync(~0u, stats.y, i + j);
        if (base + i + j >= n) continue;
        const bool is_first = base + i + j == 0;
        sum = is_first ? part_sum : fused(part_sum, weight, sum * before);
#pragma unroll
        for (int c = 0; c < kCount; ++c) value[c] = is_first ? part[j][c] : fused(part[j][c], weight, value[c] * before);
      }
    }
    most = __shfl_sync(~0u, weighed.largest, 31);
  }
  const Quotient q = quotient_of(step.rule, head, most, sum);
  float* out = row_of<float>(launch.out, work.row) + head * kDim + lane;
#pragma unroll
  for (int c = 0; c < kCount; ++c) __stcg(out + 32 * c, value[c] * q.factor / q.divisor);
}

}  // namespace kvik::cuda
