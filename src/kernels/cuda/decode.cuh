#pragma once

#include "kernels/cuda/attend_rule.cuh"
#include "kernels/cuda/cluster.cuh"

// What the blocks of a decode attention share, and how they merge spans.
namespace kvik::cuda {

constexpr int kDecodeWarps = kDecodeThreads / 32;

// What a block works on.
struct DecodeWork {
  RowAt row;
  Visible visible;
  int span, first_span, end_span;  // its own; all that the row sees
  int first_head, n_heads;         // into Attend::heads
  int kv_head, place;              // place: of the KV head and tile, blockIdx.y
  int tile;                        // of the heads of the KV head
  int64_t slot;
  bool owns;  // the row's own position is in the span, and is appended here

  static __device__ __forceinline__ int group_of(int span) { return static_cast<int>(static_cast<unsigned>(span) / kSpansAGroup); }
  __device__ __forceinline__ int group() const { return group_of(span); }
  // The spans of its group that the row sees: a block each.
  __device__ __forceinline__ int first_of_group() const { return max(first_span, group() * kSpansAGroup); }
  __device__ __forceinline__ int end_of_group() const { return min(end_span, (group() + 1) * kSpansAGroup); }
  __device__ __forceinline__ int n_groups() const { return group_of(end_span - 1) - group_of(first_span) + 1; }
  __device__ __forceinline__ bool is_whole() const { return n_groups() == 1; }  // its group is all that the row sees
};

// Beside the arrays of the launch, in shared memory.
struct DecodeShared {
  Inbox inbox;
  float largest[kDecodeWarps][kDecodeHeads];  // of the positions of a warp
  float scale[kDecodeHeads];                  // undoes the power of two of q
  int head[kDecodeHeads];
  float4 stats[kSpansAGroup][4];  // of each span of the group, two heads each: largest and sums
  bool is_last;
};

// a / n in four instructions, of a up to 26 and n from 1 to 8.
static_assert(kSpansAGroup == 8);
__device__ __forceinline__ int small_quotient(int a, int n) {
  constexpr uint64_t kInverses = 0x1013161a202b4080;  // 128 / n, rounded up, from 1 on
  return a * static_cast<int>(kInverses >> (n - 1) * 8 & 255) >> 7;
}

// How much what was merged before and the next part weigh, when part i comes to those before it. Lanes hold parts in order.
struct Weighed {
  float before, part, largest;  // largest: of all up to this one
};
template <int kStride>  // lanes between parts
__device__ __forceinline__ Weighed weigh_in_order(float largest, float carried) {
  const int lane = threadIdx.x % 32;
  float most = largest;
#pragma unroll
  for (int step = kStride; step < 32; step *= 2) {
    const float other = __shfl_up_sync(~0u, most, step);
    if (lane >= step && other > most) most = other;
  }
  if (carried > most) most = carried;
  float before = __shfl_up_sync(~0u, most, kStride);
  if (lane < kStride) before = carried;
  return {part_weight(before, most), part_weight(largest, most), most};
}

// Values of two heads and two dimensions as mma leaves them: x, y are heads 2t and 2t + 1 at dimension g, z, w at g + 8.
__device__ __forceinline__ void merge_values(float4& into, const float4& part, const float2& before, const float2& weight) {
  into.x = fused(part.x, weight.x, into.x * before.x);
  into.y = fused(part.y, weight.y, into.y * before.y);
  into.z = fused(part.z, weight.x, into.z * before.x);
  into.w = fused(part.w, weight.y, into.w * before.y);
}

__device__ __forceinline__ int parts_a_group(const Attend& step) { return step.parts.spans_a_part == 1 ? kSpansAGroup : 1; }
__device__ __forceinline__ float* group_part(const Attend& step, const DecodeWork& work, int head, int group) {
  const int part = group * parts_a_group(step);
  return pointer<float>(step.parts.parts) +
         ((work.row.index * step.n_heads + head) * step.parts.n_parts + part) * (2 + step.layout.value_dim);
}

// The spans of the group, of the tiles of 16 dimensions that this block has been sent: into the result, or into the part of the group.
__device__ __forceinline__ void merge_group(const DecodeLaunch& launch, const DecodeWork& work, const float4* inbox, int n_tiles,
                                            const DecodeShared& kept) {
  const Attend& step = launch.step;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, value_dim = step.layout.value_dim;
  const int first = work.first_of_group(), n = work.end_of_group() - first, own = work.span - first;
  const bool whole = work.first_span / kSpansAGroup == (work.end_span - 1) / kSpansAGroup;
  const int slots = small_quotient(n_tiles + n - 1, n);
  if (warp * n + own >= n_tiles) return;
  const float4 stats = g < n ? kept.stats[g][t] : make_float4(-infinity(), -infinity(), 0.0f, 0.0f);
  const Weighed even = weigh_in_order<4>(stats.x, -infinity()), odd = weigh_in_order<4>(stats.y, -infinity());
#pragma unroll 1
  for (int slot = warp; slot * n + own < n_tiles; slot += kDecodeWarps) {
    float4 values = inbox[slot * 32 + lane];
    float2 sum = make_float2(__shfl_sync(~0u, stats.z, t), __shfl_sync(~0u, stats.w, t));
#pragma unroll 1
    for (int i = 1; i < n; ++i) {
      const int from = i * 4 + t;
      const float2 before = make_float2(__shfl_sync(~0u, even.before, from), __shfl_sync(~0u, odd.before, from));
      const float2 weight = make_float2(__shfl_sync(~0u, even.part, from), __shfl_sync(~0u, odd.part, from));
      merge_values(values, inbox[(i * slots + slot) * 32 + lane], before, weight);
      sum.x = fused(__shfl_sync(~0u, stats.z, from), weight.x, sum.x * before.x);
      sum.y = fused(__shfl_sync(~0u, stats.w, from), weight.y, sum.y * before.y);
    }
    const int last = (n - 1) * 4 + t, tile = slot * n + own;
    const float2 largest = make_float2(__shfl_sync(~0u, even.largest, last), __shfl_sync(~0u, odd.largest, last));
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (2 * t + h >= work.n_heads) continue;
      const int head = kept.head[2 * t + h];
      const float low = h == 0 ? values.x : values.y, high = h == 0 ? values.z : values.w;
      const float most = h == 0 ? largest.x : largest.y, total = h == 0 ? sum.x : sum.y;
      const int dim = tile * 16 + g;
      if (whole) {
        const Quotient q = quotient_of(step.rule, head, most, total);
        float* out = row_of<float>(launch.out, work.row) + static_cast<int64_t>(head) * value_dim;
        if (dim < value_dim) __stcg(out + dim, low * q.factor / q.divisor);
        if (dim + 8 < value_dim) __stcg(out + dim + 8, high * q.factor / q.divisor);
      } else {
        float* part = group_part(step, work, head, work.group());
        if (dim < value_dim) __stcg(part + 2 + dim, low);
        if (dim + 8 < value_dim) __stcg(part + 2 + dim + 8, high);
        if (tile == 0 && g == 0) __stcg(part, most), __stcg(part + 1, total);
      }
    }
  }
}

// The groups of a row, by the last of its blocks. `memory` is shared memory for 8 heads: two weights for each group, then sums and values.
__device__ __forceinline__ void merge_groups(const DecodeLaunch& launch, const DecodeWork& work, float* memory, const DecodeShared& kept) {
  const Attend& step = launch.step;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, value_dim = step.layout.value_dim, size = 1 + value_dim;
  const int first = work.first_span / kSpansAGroup, n = (work.end_span - 1) / kSpansAGroup + 1 - first;
  auto* weights = reinterpret_cast<float2*>(memory);
  float* merged = memory + kDecodeHeads * n * 2;
  __shared__ float most[kDecodeHeads];
  if (warp < work.n_heads) {
    float carried = -infinity();
#pragma unroll 1
    for (int base = 0; base < n; base += 32) {
      const float largest = base + lane < n ? __ldcg(group_part(step, work, kept.head[warp], first + base + lane)) : -infinity();
      const Weighed weighed = weigh_in_order<1>(largest, carried);
      if (base + lane < n) weights[warp * n + base + lane] = make_float2(weighed.before, weighed.part);
      carried = __shfl_sync(~0u, weighed.largest, 31);
    }
    if (lane == 0) most[warp] = carried;
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < work.n_heads * size; i += kDecodeThreads) {
    const int head = i / size, element = i - head * size;
    const float* from = group_part(step, work, kept.head[head], first) + 1 + element;
    const int64_t stride = static_cast<int64_t>(parts_a_group(step)) * (2 + value_dim);
    float x = __ldcg(from);
#pragma unroll 8
    for (int group = 1; group < n; ++group) {
      const float2 weight = weights[head * n + group];
      x = fused(__ldcg(from + group * stride), weight.y, x * weight.x);
    }
    merged[i] = x;
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < work.n_heads * value_dim; i += kDecodeThreads) {
    const int head = i / value_dim, element = i - head * value_dim;
    const Quotient q = quotient_of(step.rule, kept.head[head], most[head], merged[head * size]);
    __stcg(row_of<float>(launch.out, work.row) + static_cast<int64_t>(kept.head[head]) * value_dim + element,
           merged[head * size + 1 + element] * q.factor / q.divisor);
  }
}

}  // namespace kvik::cuda
