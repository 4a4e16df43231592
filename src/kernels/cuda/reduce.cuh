#pragma once

#include "kernels/cuda/row_memory.cuh"

// Reductions in 256 strands (order.h): by a whole block for one long group, by a warp for each of several groups. One body for all of them
// keeps kernels small.
namespace kvik::cuda {

enum class Fold : uint8_t { kSum, kSquares, kMagnitudes, kExponentials, kLargest, kSmallest, kProduct };

constexpr int kStrandsPerLane = kStrands / 32;

__device__ __forceinline__ float fold_start(Fold fold) {
  return fold == Fold::kLargest ? -infinity() : fold == Fold::kSmallest ? infinity() : fold == Fold::kProduct ? 1.0f : 0.0f;
}
// `base` is the mean of squares, the largest of exponentials.
__device__ __forceinline__ float fold_in(Fold fold, float sum, float x, float base) {
  switch (fold) {
    case Fold::kSum: return sum + x;
    case Fold::kSquares: return fused(x - base, x - base, sum);
    case Fold::kMagnitudes: return sum + absolute(x);
    case Fold::kExponentials: return sum + exp_of(x - base);
    case Fold::kLargest: return x > sum ? x : sum;
    case Fold::kSmallest: return x < sum ? x : sum;
    default: return sum * x;
  }
}
__device__ __forceinline__ float fold_two(Fold fold, float a, float b) {
  switch (fold) {
    case Fold::kLargest: return b > a ? b : a;
    case Fold::kSmallest: return b < a ? b : a;
    case Fold::kProduct: return a * b;
    default: return a + b;
  }
}

// `strands` has kStrands floats in shared memory; strand i is that of element i % kStrands. All lanes of a warp get the result.
__device__ __forceinline__ float join_strands(Fold fold, const float* strands) {
  const int lane = threadIdx.x % 32;
  float strand[kStrandsPerLane];
#pragma unroll
  for (int j = 0; j < kStrandsPerLane; ++j) strand[j] = strands[lane + 32 * j];
#pragma unroll
  for (int half = kStrandsPerLane / 2; half > 0; half /= 2)
#pragma unroll
    for (int j = 0; j < half; ++j) strand[j] = fold_two(fold, strand[j], strand[j + half]);
  float x = strand[0];
#pragma unroll 1
  for (int half = 16; half > 0; half /= 2) x = fold_two(fold, x, __shfl_down_sync(~0u, x, half));
  return __shfl_sync(~0u, x, 0);
}

// All threads of a block, or of a warp, call it and get the result. scratch: kStrands + 1 floats for the block, kStrands for each warp.
__device__ __forceinline__ float fold_strands(Fold fold, const float* x, int n, float base, bool by_block, float* scratch) {
  const int first = by_block ? threadIdx.x : threadIdx.x % 32, stride = by_block ? kRowThreads : 32;
#pragma unroll 1
  for (int s = first; s < kStrands; s += stride) {
    float strand = fold_start(fold);
#pragma unroll 4
    for (int i = s; i < n; i += kStrands) strand = fold_in(fold, strand, x[i], base);
    scratch[s] = strand;
  }
  if (!by_block) {
    __syncwarp();
    const float joined = join_strands(fold, scratch);
    __syncwarp();
    return joined;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    const float joined = join_strands(fold, scratch);
    if (threadIdx.x == 0) scratch[kStrands] = joined;
  }
  __syncthreads();
  return scratch[kStrands];
}

// Twice: for squares, which every layer needs and which no switch delays, and for the rest.
__device__ __noinline__ float fold_squares(const float* x, int n, float mean, bool by_block, float* scratch) {
  return fold_strands(Fold::kSquares, x, n, mean, by_block, scratch);
}
__device__ __noinline__ float fold_group(Fold fold, const float* x, int n, float base, bool by_block, float* scratch) {
  const float joined = fold_strands(fold, x, n, base, by_block, scratch);
  if (by_block) __syncthreads();  // another one may follow
  return joined;
}

// The groups that a thread works on, with its elements of each: first, first + stride, …
struct Groups {
  int group, step, first, stride;
  bool by_block;
  float* scratch;
};
__device__ __forceinline__ Groups groups_of(int64_t n_groups, const RowMemory& memory) {
  const int warp = threadIdx.x / 32;
  if (n_groups == 1) return {0, 1, static_cast<int>(threadIdx.x), kRowThreads, true, memory.scratch};
  return {warp, kRowThreads / 32, static_cast<int>(threadIdx.x % 32), 32, false, memory.scratch + warp * kStrands};
}

}  // namespace kvik::cuda
