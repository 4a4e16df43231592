#pragma once

#include "kernels/cuda/decode_row.cuh"

// Scores, weights and weighted values of a span.
namespace kvik::cuda {

template <int kPlanes>
__device__ __forceinline__ float joined(const float (&sums)[kPlanes == 2 ? 3 : 1][4], int i) {
  if constexpr (kPlanes == 2) return sums[0][i] + (sums[1][i] + sums[2][i]) * (1.0f / kPlaneStep);
  return sums[0][i];
}

// 16 positions of a warp by 8 heads.
template <int kPlanes, int kDim>
__device__ __forceinline__ void score(const Shape<kPlanes, kDim>& shape, uint32_t keys, uint32_t queries, float (&scores)[4]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, stride = shape.key_stride();
  float sums[kPlanes == 2 ? 3 : 1][4] = {};
  const uint32_t k_at = keys + ((warp * 16 + lane % 16) * stride + lane / 16 * 8) * 2;
  const uint32_t q_at = queries + (lane % 8 * stride + lane / 8 * 8) * 2;  // two steps at a time
#pragma unroll(kDim > 0 ? kDim / 32 : 2)
  for (int d = 0; d < stride - 8; d += 2 * kStepColumns) {
    uint32_t q[kPlanes][4];
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) load_matrices(q[plane], q_at + (plane * kDecodeHeads * stride + d) * 2);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (d + half * kStepColumns >= stride - 8) continue;
      uint32_t k[4];
      load_matrices(k, k_at + (d + half * kStepColumns) * 2);
      mma(sums[0], k[0], k[1], k[2], k[3], q[0][half * 2], q[0][half * 2 + 1]);
      if constexpr (kPlanes == 2) {
        mma(sums[2], k[0], k[1], k[2], k[3], q[1][half * 2], q[1][half * 2 + 1]);
        load_matrices(k, k_at + (kSpanPositions * stride + d + half * kStepColumns) * 2);
        mma(sums[1], k[0], k[1], k[2], k[3], q[0][half * 2], q[0][half * 2 + 1]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) scores[i] = joined<kPlanes>(sums, i);
}

// Scores become weights in f16, zeros where the row does not look. Returns the largest score of heads 2t and 2t + 1.
template <int kPlanes>
__device__ __forceinline__ float2 soften(const DecodeLaunch& launch, const DecodeWork& work, float (&scores)[4], uint16_t* weights,
                                         DecodeShared& kept) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const AttendRule& rule = launch.step.rule;
  const bool plain = is_plain(rule);
  bool seen[4];
  float largest[2] = {-infinity(), -infinity()};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int key = work.span * kSpanPositions + warp * 16 + g + i / 2 * 8, head = 2 * t + i % 2;
    seen[i] = key >= work.visible.first && key < work.visible.end && head < work.n_heads;
    if (!seen[i]) continue;
    const float s = scores[i] * kept.scale[head];
    scores[i] = plain ? s * rule.scale : ruled_score(rule, s, kept.head[head], work.row.row->position, key);
    if (scores[i] > largest[i % 2]) largest[i % 2] = scores[i];
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
      const float other = __shfl_xor_sync(~0u, largest[h], step);
      if (other > largest[h]) largest[h] = other;
    }
    if (g == 0) kept.largest[warp][2 * t + h] = largest[h];
  }
  __syncwarp();
  let_cluster_send();  // this warp has read keys: what others send comes in their place
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kDecodeWarps; ++i) {
    const float2 other = *reinterpret_cast<const float2*>(&kept.largest[i][2 * t]);
    if (other.x > largest[0]) largest[0] = other.x;
    if (other.y > largest[1]) largest[1] = other.y;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float base = largest[i % 2] == -infinity() ? 0.0f : largest[i % 2];
    const float p = seen[i] ? exp_of(scores[i] - base) * kWeightScale : 0.0f;
    uint16_t* at = weights + (2 * t + i % 2) * kWeightStride + warp * 16 + g + i / 2 * 8;
    const uint16_t high = half_bits(p);
    at[0] = high;
    if constexpr (kPlanes == 2) at[kDecodeHeads * kWeightStride] = half_bits((p - half_value(high)) * kPlaneStep);
  }
  return make_float2(largest[0], largest[1]);
}

// Weights times values, and sums of weights, to the blocks that merge them.
template <int kPlanes, int kDim>
__device__ __forceinline__ void weigh(const Shape<kPlanes, kDim>& shape, const DecodeWork& work, uint32_t values, uint32_t weights,
                                      uint32_t inbox, float2 largest, DecodeShared& kept) {
  constexpr int kSteps = kSpanPositions / kStepColumns;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, stride = shape.value_stride();
  const int n_tiles = (stride - 8) / 16, first = work.first_of_group(), n = work.end_of_group() - first, own = work.span - first;
  const int slots = small_quotient(n_tiles + n - 1, n), first_rank = first % kSpansAGroup;
  uint32_t p[kPlanes][kSteps][2];
  const uint32_t p_at = weights + (lane % 8 * kWeightStride + lane / 8 * 8) * 2;
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane)
#pragma unroll
    for (int k = 0; k < kSteps; k += 2) {
      uint32_t two[4];
      load_matrices(two, p_at + (plane * kDecodeHeads * kWeightStride + k * kStepColumns) * 2);
      p[plane][k][0] = two[0], p[plane][k][1] = two[1], p[plane][k + 1][0] = two[2], p[plane][k + 1][1] = two[3];
    }
  const uint32_t v_at = values + ((lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8) * 2;
  wait_for_cluster();  // the others no longer read their keys
#pragma unroll 1
  for (int tile = warp; tile < n_tiles; tile += kDecodeWarps) {
    float sums[kPlanes == 2 ? 3 : 1][4] = {};
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      uint32_t v[4];
      load_matrices_transposed(v, v_at + (k * kStepColumns * stride + tile * 16) * 2);
      mma(sums[0], v[0], v[1], v[2], v[3], p[0][k][0], p[0][k][1]);
      if constexpr (kPlanes == 2) {
        mma(sums[2], v[0], v[1], v[2], v[3], p[1][k][0], p[1][k][1]);
        load_matrices_transposed(v, v_at + ((kSpanPositions + k * kStepColumns) * stride + tile * 16) * 2);
        mma(sums[1], v[0], v[1], v[2], v[3], p[0][k][0], p[0][k][1]);
      }
    }
    const int slot = small_quotient(tile, n);
    kept.inbox.send(inbox + ((own * slots + slot) * 32 + lane) * 16, first_rank + tile - slot * n,
                    make_float4(joined<kPlanes>(sums, 0), joined<kPlanes>(sums, 1), joined<kPlanes>(sums, 2), joined<kPlanes>(sums, 3)));
    if constexpr (kDim > 0 && kDim / 16 <= kDecodeWarps) break;
  }
  if (warp != kDecodeWarps - 1) return;
  constexpr uint32_t kOnes = 0x3c003c00u;
  float sums[kPlanes][4] = {};
#pragma unroll
  for (int plane = 0; plane < kPlanes; ++plane)
#pragma unroll
    for (int k = 0; k < kSteps; ++k) mma(sums[plane], kOnes, kOnes, kOnes, kOnes, p[plane][k][0], p[plane][k][1]);
  float2 sum = make_float2(sums[0][0], sums[0][1]);
  if constexpr (kPlanes == 2) sum = make_float2(sum.x + sums[1][0] * (1.0f / kPlaneStep), sum.y + sums[1][1] * (1.0f / kPlaneStep));
  if (g < n) kept.inbox.send(shared_address(&kept.stats[own][t]), first_rank + g, make_float4(largest.x, largest.y, sum.x, sum.y));
}

}  // namespace kvik::cuda
