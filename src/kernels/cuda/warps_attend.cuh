#pragma once

#include "kernels/cuda/span_ring.cuh"

// Decode attention of many spans: a warp takes a span of a row and a KV head by itself, from scores to weighted values, and waits for no
// other warp in between. A block has a warp for each span of a group, and merges them.
namespace kvik::cuda {

constexpr int kSpanChunks = kSpanPositions / 16;
static_assert(kSpansAGroup == kDecodeWarps && kSpanGroupPositions == kSpansAGroup * kSpanPositions);

// What spans add: values of 16 dimensions (the warp's) by 8 heads as mma leaves them, largest scores and sums of heads 2t and 2t + 1.
struct SpanPart {
  float4 values;
  float2 largest, sums;
};

// The second half of a span comes where the first was.
template <class T, int kEach>
__device__ __forceinline__ void move_down(T (&x)[kSpanChunks][kEach]) {
#pragma unroll
  for (int c = 0; c < kSpanChunks / 2; ++c)
#pragma unroll
    for (int i = 0; i < kEach; ++i) x[c][i] = x[kSpanChunks / 2 + c][i];
}

// Of 16 positions at a time, by 8 heads, as score() of decode_span.cuh; scaled, and the largest of heads 2t and 2t + 1, as scale_plain()
// does it. Values begin to arrive behind the last keys. A loop takes half of the span, and is written once: scores move down in between.
template <class Ring>
__device__ __forceinline__ float2 score_span(Ring& ring, uint32_t queries, const uint16_t* own_key, const DecodeWork& work,
                                             const DecodeShared& kept, float (&scores)[kSpanChunks][4]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const uint32_t q_at = queries + (lane % 8 * (Ring::kHeadDim + 8) + lane / 8 * 8) * 2;  // two steps at a time
  uint32_t q[Ring::kSteps / 2][4];
#pragma unroll
  for (int d = 0; d < Ring::kSteps / 2; ++d) load_matrices(q[d], q_at + d * 2 * kStepColumns * 2);
  int here = work.span * kSpanPositions + g - work.visible.first;
  const auto n_seen = static_cast<unsigned>(work.visible.end - work.visible.first);
  const float2 head_scales = *reinterpret_cast<const float2*>(&kept.scale[2 * t]);
  float largest[2] = {-infinity(), -infinity()};
#pragma unroll 1
  for (int first = 0; first < Ring::kTiles; first += Ring::kHalf) {
    move_down(scores);
    auto* const sums = scores + kSpanChunks / 2;
#pragma unroll
    for (int c = 0; c < kSpanChunks / 2; ++c)
#pragma unroll
      for (float& sum : scores[kSpanChunks / 2 + c]) sum = 0.0f;
#pragma unroll
    for (int tile = 0; tile < Ring::kHalf; ++tile) {
      ring.wait(first + tile, own_key);
      uint32_t k[Ring::kChunks][Ring::kSteps][4];
#pragma unroll
      for (int c = 0; c < Ring::kChunks; ++c) ring.load_keys(c, k[c]);
      ring.fetch();
#pragma unroll
      for (int d = 0; d < Ring::kSteps; ++d)
#pragma unroll
        for (int c = 0; c < Ring::kChunks; ++c)
          mma(sums[tile * Ring::kChunks + c], k[c][d][0], k[c][d][1], k[c][d][2], k[c][d][3], q[d / 2][d % 2 * 2], q[d / 2][d % 2 * 2 + 1]);
    }
#pragma unroll
    for (int c = 0; c < kSpanChunks / 2; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool seen = static_cast<unsigned>(here + c * 16 + i / 2 * 8) < n_seen;
        sums[c][i] = seen ? sums[c][i] * (i % 2 == 0 ? head_scales.x : head_scales.y) * ring.launch.step.rule.scale : -infinity();
        largest[i % 2] = fmaxf(largest[i % 2], sums[c][i]);  // NaN is not larger
      }
    here += kSpanPositions / 2;
  }
#pragma unroll
  for (int step = 4; step < 32; step *= 2)
#pragma unroll
    for (int h = 0; h < 2; ++h) largest[h] = fmaxf(largest[h], __shfl_xor_sync(~0u, largest[h], step));
  return make_float2(largest[0], largest[1]);
}

// Matrices of 8 positions by 8 heads, with rows as columns.
__device__ __forceinline__ uint32_t transposed(uint32_t x) {
  uint32_t y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// Scores become weights, as weigh_plain() does it: operands of mma for 16 positions each.
__device__ __forceinline__ void weigh_span(float2 largest, float (&scores)[kSpanChunks][4], uint32_t (&weights)[kSpanChunks][2]) {
  const float base[2] = {largest.x == -infinity() ? 0.0f : largest.x, largest.y == -infinity() ? 0.0f : largest.y};
#pragma unroll 1
  for (int first = 0; first < kSpanChunks; first += kSpanChunks / 2) {
    move_down(weights);
#pragma unroll
    for (int c = 0; c < kSpanChunks / 2; ++c)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const __half2 pair = __floats2half2_rn(exp_of_score(scores[c][2 * half] - base[0]) * kWeightScale,
                                               exp_of_score(scores[c][2 * half + 1] - base[1]) * kWeightScale);
        weights[kSpanChunks / 2 + c][half] = transposed(*reinterpret_cast<const uint32_t*>(&pair));
      }
    move_down(scores);
  }
}

// Weights times values, and sums of weights, as weigh() of decode_span.cuh. Values of each 16 dimensions come where the warp's ring
// was.
template <class Ring>
__device__ __forceinline__ float2 add_values(Ring& ring, const uint16_t* own_value, uint32_t (&weights)[kSpanChunks][2]) {
  constexpr uint32_t kOnes = 0x3c003c00u;
  float products[Ring::kSteps][4] = {}, sums[4] = {};
#pragma unroll 1
  for (int first = 0; first < Ring::kTiles; first += Ring::kHalf) {
#pragma unroll
    for (int tile = 0; tile < Ring::kHalf; ++tile) {
      ring.wait(first + tile, own_value);
      uint32_t v[Ring::kChunks][Ring::kSteps][4];
#pragma unroll
      for (int c = 0; c < Ring::kChunks; ++c) ring.load_values(c, v[c]);
      ring.fetch();
#pragma unroll
      for (int c = 0; c < Ring::kChunks; ++c) {
        const uint32_t(&p)[2] = weights[tile * Ring::kChunks + c];
#pragma unroll
        for (int d = 0; d < Ring::kSteps; ++d) mma(products[d], v[c][d][0], v[c][d][1], v[c][d][2], v[c][d][3], p[0], p[1]);
        mma(sums, kOnes, kOnes, kOnes, kOnes, p[0], p[1]);
      }
    }
    move_down(weights);
  }
  const uint32_t to = ring.ring + threadIdx.x % 32 * 16;
#pragma unroll
  for (int d = 0; d < Ring::kSteps; ++d)
    asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(to + d * 512), "f"(products[d][0]), "f"(products[d][1]), "f"(products[d][2]),
                 "f"(products[d][3])
                 : "memory");
  return make_float2(sums[0], sums[1]);
}

// The spans of the group in order; a warp merges the values of 16 dimensions. `first` are those of the first span.
template <int kDim, int kSpanBytes>
__device__ __forceinline__ SpanPart merge_warps(const unsigned char* first, int n, const float2 (*weights)[kDecodeHeads],
                                                const DecodeShared& kept) {
  const int t = threadIdx.x % 4;
  const float4 stats = kept.stats[0][t];
  SpanPart merged{make_float4(0.0f, 0.0f, 0.0f, 0.0f), make_float2(stats.x, stats.y), make_float2(stats.z, stats.w)};
  if (threadIdx.x >= kDim / 16 * 32) return merged;
  merged.values = reinterpret_cast<const float4*>(first)[threadIdx.x];
#pragma unroll
  for (int i = 1; i < kSpansAGroup; ++i) {
    if (i >= n) break;
    const float4 span = kept.stats[i][t], both = *reinterpret_cast<const float4*>(&weights[i][2 * t]);
    const float2 before = make_float2(both.x, both.z), weight = make_float2(both.y, both.w);
    merge_values(merged.values, reinterpret_cast<const float4*>(first + i * kSpanBytes)[threadIdx.x], before, weight);
    merged.sums.x = fused(span.z, weight.x, merged.sums.x * before.x);
    merged.sums.y = fused(span.w, weight.y, merged.sums.y * before.y);
    if (span.x > merged.largest.x) merged.largest.x = span.x;
    if (span.y > merged.largest.y) merged.largest.y = span.y;
  }
  return merged;
}

// The result, or the part of the group.
template <int kDim>
__device__ __forceinline__ void write_merged(const DecodeLaunch& launch, const DecodeWork& work, const SpanPart& merged, bool whole,
                                             const DecodeShared& kept) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, dim = warp * 16 + g;
  if (warp >= kDim / 16) return;
  SpanPart part = merged;
#pragma unroll 1
  for (int h = 2 * t; h < min(2 * t + 2, work.n_heads); ++h) {
    const int head = kept.head[h];
    if (whole) {
      const Quotient q = quick_quotient<true>(launch.step.rule, head, part.largest.x, part.sums.x);
      float* out = pointer<float>(launch.out.base, work.row.index * launch.out.stride) + head * kDim + dim;
      __stcg(out, part.values.x * q.factor / q.divisor);
      __stcg(out + 8, part.values.z * q.factor / q.divisor);
    } else {
      float* to = quick_part<kDim>(launch.step, work, head, work.group());
      __stcg(to + 2 + dim, part.values.x);
      __stcg(to + 2 + dim + 8, part.values.z);
      if (dim == 0) __stcg(reinterpret_cast<float2*>(to), make_float2(part.largest.x, part.sums.x));
    }
    part.values.x = part.values.y, part.values.z = part.values.w, part.largest.x = part.largest.y, part.sums.x = part.sums.y;
  }
}

// The group is merged; the last group of the row to be merged merges all.
template <int kDim>
__device__ __forceinline__ void finish_group(const DecodeLaunch& launch, const DecodeWork& work, const SpanPart& merged,
                                             unsigned char* shared, DecodeShared& kept) {
  const int n_groups = (work.end_span - 1) / kSpansAGroup - work.first_span / kSpansAGroup + 1;
  write_merged<kDim>(launch, work, merged, n_groups == 1, kept);
  if (n_groups == 1) return;
  __syncthreads();
  if (threadIdx.x == 0)
    kept.is_last =
        arrives_last(pointer<uint32_t>(launch.tickets) + work.row.index * gridDim.y + work.place, static_cast<uint32_t>(n_groups - 1));
  __syncthreads();
  if (kept.is_last) merge_all<kDim>(launch, work, shared, kept);
}

}  // namespace kvik::cuda
