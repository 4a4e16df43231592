#pragma once

#include "kernels/cuda/decode_span.cuh"

// Decode attention of the common kind (decode.cu has all others): f16, heads of 64 or 128, scores that are only scaled, rotary of whole
// heads by halves. What a row waits for is a chain of instructions, so there are few of them behind the wait: addresses are found before
// it. A kernel's length costs time, too (docs/cuda.md): code that could be written once with other operands is not written twice, and what
// few models need is called.
namespace kvik::cuda {

// Of the row, what DecodeWork does not have.
struct RowNow {
  int position, n_branches, beyond;
};

// As find_row() of decode_row.cuh, for rows that append: every thread reads the row, and nobody waits.
__device__ __forceinline__ bool find_work(const DecodeLaunch& launch, DecodeWork& work, RowNow& now) {
  const Attend& step = launch.step;
  const Row* row = pointer<Row>(step.rows.rows) + blockIdx.z;
  const bool there = static_cast<int>(blockIdx.z) < __ldcg(pointer<int32_t>(step.rows.n_rows));
  const int2 place = __ldcg(reinterpret_cast<const int2*>(&row->position)), ends = __ldcg(reinterpret_cast<const int2*>(&row->n_branches));
  now = {place.x, ends.x, ends.y};
  work.row = {row, static_cast<int64_t>(blockIdx.z)};
  work.slot = place.y;
  work.place = static_cast<int>(blockIdx.y);
  work.kv_head = launch.tiles_a_kv_head == 1 ? work.place : static_cast<int>(__umulhi(blockIdx.y, launch.tiles_inverse));
  work.tile = work.place - work.kv_head * launch.tiles_a_kv_head;
  const int32_t* first_heads = pointer<int32_t>(step.first_heads) + work.kv_head;
  work.first_head = __ldcg(first_heads) + work.tile * kDecodeHeads;
  work.n_heads = max(0, min(kDecodeHeads, __ldcg(first_heads + 1) - work.first_head));
  work.visible = {step.rule.window > 0 ? max(0, now.position + 1 - step.rule.window) : 0, now.position + 1};
  work.first_span = static_cast<unsigned>(work.visible.first) / kSpanPositions;
  work.end_span = static_cast<unsigned>(now.position) / kSpanPositions + 1;
  return there;
}

// What is computed here, and not where it is used.
template <class T>
__device__ __forceinline__ void compute_now(T*& p) {
  asm volatile("" : "+l"(p));
}

// The pages of the span, and for those behind the row's own position that one's: the last is its own if the block owns it.
__device__ __forceinline__ void find_quick_pages(const Attend& step, const DecodeWork& work, uint64_t (&pages)[kPagesASpan]) {
  const auto* table = pointer<uint64_t>(step.pages.pages) + work.slot * step.pages.n_pages;
  compute_now(table);
  const int last = (work.visible.end - 1) / static_cast<unsigned>(kPagePositions);
#pragma unroll
  for (int i = 0; i < kPagesASpan; ++i) pages[i] = __ldcg(table + static_cast<unsigned>(min(work.span * kPagesASpan + i, last)));
}

// Keys and values of a span into shared memory; zeros for positions that the row does not see. Its own position is left out.
template <int kDim>
__device__ __forceinline__ void fetch_span(const DecodeLaunch& launch, const DecodeWork& work, const uint64_t (&pages)[kPagesASpan],
                                           uint32_t keys) {
  constexpr int kPieces = kDim / 8, kAtOnce = kDecodeThreads / kPieces;
  const Attend& step = launch.step;
  const int position = threadIdx.x / kPieces, piece = threadIdx.x % kPieces;
  const int here = work.span * kSpanPositions + position - work.visible.first, n_seen = work.visible.end - work.visible.first;
  const int own = work.owns ? n_seen - 1 : INT32_MAX;
  const int64_t offset = step.page_offset + work.kv_head * step.layout.head_bytes + threadIdx.x * 16;
  const uint32_t to = keys + position * (kDim + 8) * 2 + piece * 16, values_to = to + launch.values_at;
#pragma unroll
  for (int page = 0; page < kPagesASpan; ++page) {
    const auto* from = reinterpret_cast<const unsigned char*>(pages[page] + offset);  // the thread's piece
    const unsigned char* values = from + step.layout.values_offset;
    compute_now(from);
    compute_now(values);
#pragma unroll
    for (int i = 0; i < kPagePositions; i += kAtOnce) {
      const int ahead = page * kPagePositions + i;
      if (here + ahead == own) continue;
      const bool seen = static_cast<unsigned>(here + ahead) < static_cast<unsigned>(n_seen);
      copy_async(to + ahead * (kDim + 8) * 2, from + i * kDim * 2, seen);
      copy_async(values_to + ahead * (kDim + 8) * 2, values + i * kDim * 2, seen);
    }
  }
  commit_copies();
}

// Where the key and the value of the row's own position go.
struct OwnPlace {
  uint64_t page;  // not read unless the block owns it
  int position;   // of the arrays in shared memory
};

// A head of the row: where it is, and where it goes. Tasks are queries, then the key and the value.
template <int kDim>
struct HeadTask {
  static constexpr int kCount = kDim / 32;
  const float* x;
  float* turned;   // the rotated head in memory, or none
  uint16_t* kept;  // its place in a page, or none
  uint16_t* to;    // in shared memory
  bool turns, is_query;
  float cos[kCount / 2], sin[kCount / 2];

  __device__ __forceinline__ HeadTask(const DecodeLaunch& launch, const DecodeWork& work, const RowNow& now, const OwnPlace& own,
                                      unsigned char* shared, int task) {
    const int lane = threadIdx.x % 32, kind = min(max(task - work.n_heads + 1, 0), 2), row = static_cast<int>(work.row.index);
    const DecodeHeads& heads = launch.heads[kind];
    is_query = kind == 0;
    const int head = is_query ? __ldcg(pointer<int32_t>(launch.step.heads) + work.first_head + task) : work.kv_head;
    const int at = head * kDim + lane;
    const bool leads = work.tile == 0;
    x = pointer<float>(heads.x, int64_t{row} * heads.stride) + at;
    turned = heads.turned != Address::kNone && (is_query ? work.owns : leads)
                 ? pointer<float>(heads.turned, int64_t{row} * heads.turned_stride) + at
                 : nullptr;
    kept = !is_query && leads ? reinterpret_cast<uint16_t*>(own.page + heads.in_page + work.kv_head * launch.step.layout.head_bytes) +
                                    now.position % static_cast<unsigned>(kPagePositions) * kDim + lane
                              : nullptr;
    to = reinterpret_cast<uint16_t*>(shared + heads.to + (is_query ? task : own.position) * heads.to_stride) + lane;
    compute_now(x);
    turns = heads.cos[0] != Address::kNone;
    if (!turns) return;
    const int64_t angles = int64_t{now.position} * heads.angle_stride + lane * 4;
    const auto *cos_row = pointer<float>(heads.cos[now.beyond != 0], angles), *sin_row = pointer<float>(heads.sin[now.beyond != 0], angles);
#pragma unroll
    for (int c = 0; c < kCount / 2; ++c) cos[c] = __ldcg(cos_row + 32 * c), sin[c] = __ldcg(sin_row + 32 * c);
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
    float factor = 1.0f;
    __half2 limit = __float2half2_rn(kLargestHalf);
    if (is_query) {
      uint32_t largest = 0;
#pragma unroll
      for (int c = 0; c < kCount; ++c) largest = max(largest, bits_of(v[c]) & 0x7fffffffu);
      const int32_t exponent = half_exponent(__reduce_max_sync(~0u, largest));
      factor = power_of_two(exponent), limit = __float2half2_rn(infinity());
      if (threadIdx.x % 32 == 0) *scale = power_of_two(-exponent);
    }
    uint16_t half[kCount];
#pragma unroll
    for (int c = 0; c < kCount; c += 2) {  // clip_of(), behind the rounding, which has larger numbers become infinity
      const __half2 pair = __floats2half2_rn(v[c] * factor, v[c + 1] * factor);
      const __half2 clipped = __hmax2_nan(__hmin2_nan(pair, limit), __hneg2(limit));
      to[32 * c] = half[c] = __half_as_ushort(__low2half(clipped));
      to[32 * c + 32] = half[c + 1] = __half_as_ushort(__high2half(clipped));
    }
    if (turned != nullptr) {
#pragma unroll
      for (int c = 0; c < kCount; ++c) __stcg(turned + 32 * c, v[c]);
    }
    if (kept != nullptr) {
#pragma unroll
      for (int c = 0; c < kCount; ++c) __stcg(kept + 32 * c, half[c]);
    }
  }
};

// The heads of the row, of which each warp has some, as soon as they are there. Sets kept.scale and kept.head.
template <int kDim>
__device__ __forceinline__ void take_heads(const DecodeLaunch& launch, const DecodeWork& work, const RowNow& now, const OwnPlace& own,
                                           unsigned char* shared, DecodeShared& kept) {
  const int n_tasks = work.n_heads + (work.owns ? 2 : 0);
  int task = threadIdx.x / 32, head_index = 0;
  if (threadIdx.x < work.n_heads) head_index = __ldcg(pointer<int32_t>(launch.step.heads) + work.first_head + threadIdx.x);
#pragma unroll 1
  do {
    HeadTask<kDim> head(launch, work, now, own, shared, task);
    wait_for_previous();  // after the first head, it does nothing
    if (task < n_tasks) head.run(&kept.scale[task % kDecodeHeads]);
    task += kDecodeWarps;
  } while (task < n_tasks);
  if (threadIdx.x < work.n_heads) kept.head[threadIdx.x] = head_index;
}

// What was appended also goes into the pages of the row's branches. `heads` are the key and the value, `apart` elements between them.
template <int kDim>
__device__ __noinline__ void append_to_branches(const DecodeLaunch& launch, int kv_head, const uint16_t* heads, int apart) {
  const Row& row = *(pointer<Row>(launch.step.rows.rows) + blockIdx.z);
  const PageTable& table = launch.append.pages;
  const int d = threadIdx.x % kDim, is_value = threadIdx.x / kDim % 2;
  const int64_t offset = launch.heads[1 + is_value].in_page + kv_head * launch.step.layout.head_bytes;
  const uint16_t head = heads[is_value * apart + d];
#pragma unroll 1
  for (int branch = threadIdx.x / (2 * kDim); branch < row.n_branches; branch += kDecodeThreads / (2 * kDim)) {
    const int64_t slot = __ldcg(pointer<int32_t>(launch.append.branches) + row.first_branch + branch);
    const uint64_t page = __ldcg(pointer<uint64_t>(table.pages) + slot * table.n_pages + row.position / kPagePositions);
    __stcg(reinterpret_cast<uint16_t*>(page + offset) + row.position % kPagePositions * kDim + d, head);
  }
}

// exp_of_negative() in fewer instructions: what exp_within() makes of numbers below its range does not matter.
__device__ __forceinline__ float exp_of_score(float x) {
  const float y = exp_within(x);
  return x < kLeastExponent ? 0.0f : x == x ? y : x;
}

// Scores become weights, as soften() does for all rules. First the largest of each warp; weigh_plain() is behind a barrier.
__device__ __forceinline__ void scale_plain(const DecodeWork& work, float rule_scale, float (&scores)[4], DecodeShared& kept) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int here = work.span * kSpanPositions + warp * 16 + g - work.visible.first;
  const auto n_seen = static_cast<unsigned>(work.visible.end - work.visible.first);
  const float2 head_scales = *reinterpret_cast<const float2*>(&kept.scale[2 * t]);
  float largest[2] = {-infinity(), -infinity()};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool seen = static_cast<unsigned>(here + i / 2 * 8) < n_seen;
    scores[i] = seen ? scores[i] * (i % 2 == 0 ? head_scales.x : head_scales.y) * rule_scale : -infinity();
    largest[i % 2] = fmaxf(largest[i % 2], scores[i]);  // NaN is not larger
  }
#pragma unroll
  for (int step = 4; step < 32; step *= 2)
#pragma unroll
    for (int h = 0; h < 2; ++h) largest[h] = fmaxf(largest[h], __shfl_xor_sync(~0u, largest[h], step));
  if (g == 0) *reinterpret_cast<float2*>(&kept.largest[warp][2 * t]) = make_float2(largest[0], largest[1]);
}

// Returns the largest scores of heads 2t and 2t + 1.
__device__ __forceinline__ float2 weigh_plain(const float (&scores)[4], uint16_t* weights, const DecodeShared& kept) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  float largest[2] = {-infinity(), -infinity()};
#pragma unroll
  for (int i = 0; i < kDecodeWarps; ++i) {
    const float2 other = *reinterpret_cast<const float2*>(&kept.largest[i][2 * t]);
    largest[0] = fmaxf(largest[0], other.x);
    largest[1] = fmaxf(largest[1], other.y);
  }
  const float base[2] = {largest[0] == -infinity() ? 0.0f : largest[0], largest[1] == -infinity() ? 0.0f : largest[1]};
  uint16_t* at = weights + 2 * t * kWeightStride + warp * 16 + g;
#pragma unroll
  for (int i = 0; i < 4; ++i) at[i % 2 * kWeightStride + i / 2 * 8] = half_bits(exp_of_score(scores[i] - base[i % 2]) * kWeightScale);
  return make_float2(largest[0], largest[1]);
}

// part_weight(); `of_all` is never the smaller one.
__device__ __forceinline__ float weight_of_part(float largest, float of_all) {
  return exp_of_score(largest - (of_all == -infinity() ? 0.0f : of_all));
}

// How much each of the n spans of a group weighs, of each head: what was merged before it, and the span; each by a thread. And the largest
// scores of all, in kept.largest[0].
__device__ __forceinline__ void weigh_spans(int n, float2 (*weights)[kDecodeHeads], DecodeShared& kept) {
  const int which = threadIdx.x % 2, head = threadIdx.x / 2 % kDecodeHeads, span = threadIdx.x / (2 * kDecodeHeads);
  if (span >= n) return;
  const auto* stats = reinterpret_cast<const float*>(kept.stats) + head / 2 * 4 + head % 2;  // [span][pair][largest of two, sums of two]
  float before = -infinity();
#pragma unroll
  for (int i = 0; i < kSpansAGroup - 1; ++i) {
    const float largest = stats[i * 16];
    if (i < span) before = fmaxf(before, largest);
  }
  const float own = stats[span * 16], most = fmaxf(before, own);
  reinterpret_cast<float*>(weights)[threadIdx.x] = weight_of_part(which == 0 ? before : own, most);
  if (span == n - 1) kept.largest[0][head] = most;
}

// quotient_of() of a head with a sink.
__device__ __noinline__ float2 sink_quotient(float sink, float largest, float sum) {
  const float most = sink > largest ? sink : largest;
  float weights[2] = {};
#pragma unroll 1
  for (int i = 0; i < 2; ++i) weights[0] = weights[1], weights[1] = weight_of_part(i == 0 ? largest : sink, most);
  return make_float2(weights[0], fused(sum, weights[0], kWeightScale * weights[1]));
}
template <bool kSinks>
__device__ __forceinline__ Quotient quick_quotient(const AttendRule& rule, int head, float largest, float sum) {
  Quotient q{1.0f, sum};
  if (kSinks && rule.sinks != Address::kNone) {
    const float2 with_sink = sink_quotient(pointer<float>(rule.sinks)[head], largest, sum);
    q = {with_sink.x, with_sink.y};
  }
  if (q.divisor == 0.0f) q.divisor = 1.0f;
  return q;
}

// group_part() of heads of kDim; parts are counted in 32 bits.
template <int kDim>
__device__ __forceinline__ float* quick_part(const Attend& step, const DecodeWork& work, int head, int group) {
  const int part = (static_cast<int>(work.row.index) * step.n_heads + head) * step.parts.n_parts + group * parts_a_group(step);
  return pointer<float>(step.parts.parts) + int64_t{part} * (2 + kDim);
}

// As merge_group(), with a thread for each value: first how much each span weighs, of each head, then the values. kFar: there may be sinks,
// and several groups.
template <int kDim, bool kFar>
__device__ __forceinline__ void merge_spans(const DecodeLaunch& launch, const DecodeWork& work, const float* inbox,
                                            float2 (*weights)[kDecodeHeads], DecodeShared& kept) {
  constexpr int kTiles = kDim / 16;
  const int first = work.first_of_group(), n = work.end_of_group() - first, own = work.span - first;
  const int slots = small_quotient(kTiles + n - 1, n);
  weigh_spans(n, weights, kept);
  __syncthreads();
  const int lane = threadIdx.x / 4 % 32, component = threadIdx.x % 4, head = 2 * (lane % 4) + component % 2,
            dim = lane / 4 + component / 2 * 8;
  if (head >= work.n_heads) return;
  const float* sums = reinterpret_cast<const float*>(kept.stats) + head / 2 * 4 + head % 2 + 2;
#pragma unroll 1
  for (int slot = threadIdx.x / 128; slot * n + own < kTiles; slot += kDecodeThreads / 128) {
    const float* from = inbox + slot * 128 + threadIdx.x % 128;
    float value = from[0], sum = sums[0];
#pragma unroll
    for (int i = 1; i < kSpansAGroup; ++i) {
      if (i >= n) break;
      const float2 weight = weights[i][head];
      from += slots * 128;
      value = fused(*from, weight.y, value * weight.x);
      sum = fused(sums[i * 16], weight.y, sum * weight.x);
    }
    const int index = kept.head[head], element = (slot * n + own) * 16 + dim;
    if (!kFar || work.is_whole()) {
      const Quotient q = quick_quotient<kFar>(launch.step.rule, index, kept.largest[0][head], sum);
      __stcg(pointer<float>(launch.out.base, work.row.index * launch.out.stride) + index * kDim + element, value * q.factor / q.divisor);
    } else {
      float* part = quick_part<kDim>(launch.step, work, index, work.group());
      __stcg(part + 2 + element, value);
      if (element == 0) __stcg(reinterpret_cast<float2*>(part), make_float2(kept.largest[0][head], sum));
    }
  }
}

// As merge_groups(), with a warp for each head. `memory` is shared: 512 bytes for each warp.
template <int kDim>
__device__ __forceinline__ void merge_all(const DecodeLaunch& launch, const DecodeWork& work, unsigned char* memory,
                                          const DecodeShared& kept) {
  constexpr int kAtOnce = 8, kPairs = kDim / 64;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp >= work.n_heads) return;
  auto* const weighed = reinterpret_cast<float4*>(memory) + warp * 32;  // of 32 parts: what was before weighs, it weighs, its sum
  const Attend& step = launch.step;
  const int first = work.group_of(work.first_span), n = work.n_groups(), head = kept.head[warp];
  const float *parts = quick_part<kDim>(step, work, head, first), *from = parts + 2 + 2 * lane;
  const int64_t stride = parts_a_group(step) * (2 + kDim);
  // -0 and -infinity before the first part: adding it with its weight, 1, leaves it as it is, even -0
  float most = -infinity(), sum = -0.0f, value[2 * kPairs];
#pragma unroll
  for (float& x : value) x = -0.0f;
#pragma unroll 1
  for (int at = 0; at < n; at += kAtOnce) {
    float2 part[kAtOnce][kPairs];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
#pragma unroll
      for (int c = 0; c < kPairs; ++c) part[j][c] = __ldcg(reinterpret_cast<const float2*>(from + 64 * c));
      if (at + j + 1 < n) from += stride;
    }
    if (at % 32 == 0) {  // while they are loaded
      const float2 stats =
          at + lane < n ? __ldcg(reinterpret_cast<const float2*>(parts + (at + lane) * stride)) : make_float2(-infinity(), 0.0f);
      float up_to = stats.x;
#pragma unroll
      for (int ahead = 1; ahead < 32; ahead *= 2) {
        const float other = __shfl_up_sync(~0u, up_to, ahead);
        if (lane >= ahead) up_to = fmaxf(up_to, other);
      }
      up_to = fmaxf(up_to, most);
      const float earlier = __shfl_up_sync(~0u, up_to, 1);
      float before = 0.0f, weight = 0.0f;
#pragma unroll 1
      for (int i = 0; i < 2; ++i) before = weight, weight = weight_of_part(i != 0 ? stats.x : lane == 0 ? most : earlier, up_to);
      most = __shfl_sync(~0u, up_to, 31);
      __syncwarp();
      weighed[lane] = make_float4(before, weight, stats.y, 0.0f);
      __syncwarp();
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (at + j >= n) break;
      const float4 weights = weighed[at % 32 + j];
      sum = fused(weights.z, weights.y, sum * weights.x);
#pragma unroll
      for (int c = 0; c < kPairs; ++c) {
        value[2 * c] = fused(part[j][c].x, weights.y, value[2 * c] * weights.x);
        value[2 * c + 1] = fused(part[j][c].y, weights.y, value[2 * c + 1] * weights.x);
      }
    }
  }
  const Quotient q = quick_quotient<true>(step.rule, head, most, sum);
  float* out = pointer<float>(launch.out.base, work.row.index * launch.out.stride) + head * kDim + 2 * lane;
#pragma unroll 1
  for (int c = 0; c < 2 * kPairs; ++c) {
    __stcg(out + c / 2 * 64 + c % 2, value[0] * q.factor / q.divisor);
#pragma unroll
    for (int next = 1; next < 2 * kPairs; ++next) value[next - 1] = value[next];
  }
}

}  // namespace kvik::cuda
