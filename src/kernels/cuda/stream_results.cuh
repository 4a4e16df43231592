#pragma once

#include "kernels/cuda/stream_rows.cuh"

// What becomes of the sums of a streamed product: slices are added up in order (order.h), then come scales, bias, residual, and the step
// behind the product if the launch has it.
namespace kvik::cuda {

constexpr int kSlicesPerGroup = kGroupColumns / kSliceColumns;

// Of up to a group of slices, `stride` floats apart in shared memory. What is missing is a zero, which changes no sum that begins with one.
__device__ __forceinline__ float sum_group(const float* sums, int n, int stride) {
  float slice[kSlicesPerGroup], group = 0.0f;
#pragma unroll
  for (int j = 0; j < kSlicesPerGroup; ++j) slice[j] = j < n ? sums[j * stride] : 0.0f;
#pragma unroll
  for (int j = 0; j < kSlicesPerGroup; ++j) group += slice[j];
  return group;
}
__device__ __forceinline__ float sum_slices(const float* sums, int n, int stride) {
  float total = 0.0f;
#pragma unroll 1
  for (int first = 0; first < n; first += kSlicesPerGroup) total += sum_group(sums + first * stride, n - first, stride);
  return total;
}

// Where k is split over blocks: each leaves the groups of its items in memory, and the block that is the last one of a tile adds them up.
__device__ __forceinline__ float* group_at(const StreamLaunch& launch, int group, int tile) {
  return pointer<float>(launch.parts) + ((static_cast<int64_t>(group) * launch.n_tiles + tile) * 16 << launch.row_shift);
}
__device__ __forceinline__ void write_groups(const StreamLaunch& launch, const float* sums, int first_item, int end_item, int n_slices) {
  const int floats = 16 << launch.row_shift, per_chunk = launch.slices_per_chunk / kSlicesPerGroup;
  for (int i = threadIdx.x; i < (end_item - first_item) * per_chunk * floats; i += kStreamThreads) {
    const int in_tile = i % floats, item = i / floats / per_chunk, in_chunk = i / floats % per_chunk;
    const int chunk = (first_item + item) / launch.n_tiles, group = chunk * per_chunk + in_chunk, left = n_slices - group * kSlicesPerGroup;
    if (left <= 0) continue;
    const float* from = sums + (item * launch.slices_per_chunk + in_chunk * kSlicesPerGroup) * floats + in_tile;
    __stcg(group_at(launch, group, (first_item + item) % launch.n_tiles) + in_tile, sum_group(from, left, floats));
  }
}
__device__ __forceinline__ float sum_groups(const StreamLaunch& launch, int tile, int in_tile, int n_slices) {
  constexpr int kBatch = 8;  // in flight
  const int n = (n_slices + kSlicesPerGroup - 1) / kSlicesPerGroup;
  float total = 0.0f;
#pragma unroll 1
  for (int first = 0; first < n; first += kBatch) {
    float group[kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) group[j] = __ldcg(group_at(launch, min(first + j, n - 1), tile) + in_tile);
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      if (first + j < n) total += group[j];
  }
  return total;
}

// One result: where it is.
struct StreamResult {
  int row, part, column, in_block;  // column of the matrix; in_block: of the constants
};

__device__ __forceinline__ float finished(const StreamLaunch& launch, const float2* constants, const StreamResult& at, float sum,
                                          float x_scale) {
  float y = sum * x_scale;
  if (launch.weight_scales != Address::kNone)
    y = y * (constants != nullptr ? constants[at.in_block].x : pointer<float>(launch.weight_scales)[at.column]);
  if (launch.bias != Address::kNone) y = y + (constants != nullptr ? constants[at.in_block].y : pointer<float>(launch.bias)[at.column]);
  const int place = at.part * launch.n + at.column;
  if (launch.residual.base != Address::kNone) y = y + row_at<float>(launch.residual, at.row)[place];
  row_at<float>(launch.out, at.row)[place] = y;
  return y;
}

// Before the launch waits for others: scales and biases of the block's columns.
__device__ __forceinline__ void stage_constants(const StreamLaunch& launch, float2* constants, int first_item, int end_item) {
  const int n_columns = (end_item - first_item) * 16, n_all = launch.pairs ? 2 * n_columns : n_columns;
#pragma unroll 1
  for (int i = threadIdx.x; i < n_all; i += kStreamThreads) {
    const int column = first_item * 16 + (i < n_columns ? i : launch.n_tiles * 16 + i - n_columns);
    if (column >= launch.n) continue;
    constants[i] = make_float2(launch.weight_scales != Address::kNone ? pointer<float>(launch.weight_scales)[column] : 1.0f,
                               launch.bias != Address::kNone ? pointer<float>(launch.bias)[column] : 0.0f);
  }
}

// The elementwise step behind the product has an operand in memory.
__device__ __forceinline__ bool has_other(const StreamLaunch& launch) { return launch.other.base != Address::kNone; }

__device__ __forceinline__ float after_of(const StreamLaunch& launch, float a, float b) {
  switch (launch.kind) {
    case Elementwise::Kind::kUnary: return unary_of(launch.unary, a);
    case Elementwise::Kind::kBinary: return launch.binary == Binary::kAdd ? a + b : binary_of(launch.binary, a, b);
    case Elementwise::Kind::kGate: return (launch.unary == Unary::kSilu ? a / (1.0f + exp_of(-a)) : unary_of(launch.unary, a)) * b;
    default: return clip_of(a, launch.low, launch.high);
  }
}

// 16 threads have a row of a tile.
__device__ __forceinline__ void put_largest(uint32_t* to, float y) {
  const uint32_t row = __activemask() & 0xffffu << (threadIdx.x & 16);
  const uint32_t largest = __reduce_max_sync(row, magnitude(y));
  if ((threadIdx.x & 31) == static_cast<uint32_t>(__ffs(static_cast<int>(row)) - 1)) atomicMax(to, largest);
}

}  // namespace kvik::cuda
