#pragma once

#include "kernels/cuda/common.cuh"

// Reductions in 256 strands (order.h): by a whole block for one long group, by a warp for each of several groups.
namespace kvik::cuda {

constexpr int kStrandsPerLane = kStrands / 32;

// strand[j] of a lane is number lane + 32 j. All lanes get the result.
template <class Join>
__device__ __forceinline__ float join_strands(float (&strand)[kStrandsPerLane], Join join) {
#pragma unroll
  for (int half = kStrandsPerLane / 2; half > 0; half /= 2)
#pragma unroll
    for (int j = 0; j < half; ++j) strand[j] = join(strand[j], strand[j + half]);
  float x = strand[0];
#pragma unroll
  for (int half = 16; half > 0; half /= 2) x = join(x, __shfl_down_sync(~0u, x, half));
  return __shfl_sync(~0u, x, 0);
}

template <class Value, class Join>
__device__ __forceinline__ float reduce_by_warp(int64_t n, float start, Value value, Join join) {
  const int lane = threadIdx.x % 32;
  float strand[kStrandsPerLane];
#pragma unroll
  for (int j = 0; j < kStrandsPerLane; ++j) strand[j] = start;
  for (int64_t base = 0; base < n; base += kStrands) {
#pragma unroll
    for (int j = 0; j < kStrandsPerLane; ++j) {
      const int64_t i = base + lane + 32 * j;
      if (i < n) strand[j] = value(strand[j], i);
    }
  }
  return join_strands(strand, join);
}

// `shared` has room for kStrands + 1 floats. All threads call it and get the result.
template <class Value, class Join>
__device__ __forceinline__ float reduce_by_block(int64_t n, float start, float* shared, Value value, Join join) {
  if (threadIdx.x < kStrands) {
    float strand = start;
    for (int64_t i = threadIdx.x; i < n; i += kStrands) strand = value(strand, i);
    shared[threadIdx.x] = strand;
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    float strand[kStrandsPerLane];
#pragma unroll
    for (int j = 0; j < kStrandsPerLane; ++j) strand[j] = shared[threadIdx.x + 32 * j];
    const float x = join_strands(strand, join);
    if (threadIdx.x == 0) shared[kStrands] = x;
  }
  __syncthreads();
  return shared[kStrands];
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return b > a ? b : a; }
};
struct Smaller {
  __device__ float operator()(float a, float b) const { return b < a ? b : a; }
};
struct Times {
  __device__ float operator()(float a, float b) const { return a * b; }
};

// Calls body(reduce, group, first, stride) for each group: `reduce` is one of the above, elements are first, first + stride, …
template <class Body>
__device__ __forceinline__ void for_groups(int64_t n_groups, float* shared, Body body) {
  if (n_groups == 1) {
    const auto reduce = [&](int64_t n, float start, auto value, auto join) { return reduce_by_block(n, start, shared, value, join); };
    body(reduce, int64_t{0}, static_cast<int>(threadIdx.x), kRowThreads);
    return;
  }
  const auto reduce = [&](int64_t n, float start, auto value, auto join) { return reduce_by_warp(n, start, value, join); };
  for (int64_t g = threadIdx.x / 32; g < n_groups; g += kRowThreads / 32) body(reduce, g, static_cast<int>(threadIdx.x % 32), 32);
}

}  // namespace kvik::cuda
