#pragma once

#include "kernels/cuda/common.cuh"

// What becomes of the sums of wide.cuh: parts that another block adds up, or results.
namespace kvik::cuda {

// Where sums of a tile and row tile are, by slice or by group: one float4 per lane and 8 rows.
template <int kRows>
__device__ __forceinline__ float4* wide_part(const WideLaunch& launch, int tile, int row_tile, int index, int lane) {
  const int64_t n_tiles = (launch.matrix.step.weights.n + 15) / 16;
  return pointer<float4>(launch.matrix.parts) +
         ((static_cast<int64_t>(index) * launch.n_row_tiles + row_tile) * n_tiles + tile) * (kRows * 4) + lane;
}
template <int kRows>
__device__ __forceinline__ void write_wide_part(float4* part, const float (&sum)[kRows / 8][4]) {
#pragma unroll
  for (int j = 0; j < kRows / 8; ++j) __stcg(part + j * 32, make_float4(sum[j][0], sum[j][1], sum[j][2], sum[j][3]));
}

// Adds up what all blocks of a tile left: slices into groups, groups into the total. Many loads are in flight.
template <int kRows>
__device__ __forceinline__ void sum_wide_parts(const WideLaunch& launch, const float4* parts, int64_t stride, int n_slices,
                                               float (&total)[kRows / 8][4]) {
  const int per_group = launch.matrix.keeps_slices ? kGroupColumns / kSliceColumns : 1;
  const int n_parts = launch.matrix.keeps_slices ? n_slices : (n_slices * kSliceColumns + kGroupColumns - 1) / kGroupColumns;
  constexpr int kBatch = 4, kRowGroups = kRows / 8 < 4 ? kRows / 8 : 4;
#pragma unroll
  for (int first = 0; first < kRows / 8; first += kRowGroups) {
    float group[kRowGroups][4] = {};
#pragma unroll
    for (int j = 0; j < kRowGroups; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) total[first + j][i] = 0.0f;
#pragma unroll 1
    for (int base = 0; base < n_parts; base += kBatch) {
      float4 part[kBatch][kRowGroups];
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
#pragma unroll
        for (int j = 0; j < kRowGroups; ++j) part[k][j] = __ldcg(parts + min(base + k, n_parts - 1) * stride + (first + j) * 32);
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (base + k >= n_parts) break;
        const bool ends = (base + k + 1) % per_group == 0 || base + k + 1 == n_parts;
#pragma unroll
        for (int j = 0; j < kRowGroups; ++j) {
          group[j][0] += part[k][j].x, group[j][1] += part[k][j].y, group[j][2] += part[k][j].z, group[j][3] += part[k][j].w;
          if (!ends) continue;
#pragma unroll
          for (int i = 0; i < 4; ++i) total[first + j][i] += group[j][i], group[j][i] = 0.0f;
        }
      }
    }
  }
}

// Of rows 8i + lane / 4, i < kRows / 8.
template <int kRows>
__device__ __forceinline__ void load_row_scales(const Matrix& step, int first_row, int n_rows, int lane, float (&scales)[kRows / 8]) {
#pragma unroll
  for (int i = 0; i < kRows / 8; ++i) {
    const int64_t m = first_row + i * 8 + lane / 4;
    scales[i] = m < n_rows ? *pointer<float>(step.scale.base, m * step.scale.stride) : 0.0f;
  }
}

// Four columns of a row, or as many as there are.
struct FourColumns {
  int n;         // of them that are there
  bool aligned;  // all are, and they are at a multiple of 16 bytes
  __device__ __forceinline__ float4 load(const float* from) const {
    if (aligned) return *reinterpret_cast<const float4*>(from);
    return {n > 0 ? from[0] : 0.0f, n > 1 ? from[1] : 0.0f, n > 2 ? from[2] : 0.0f, n > 3 ? from[3] : 0.0f};
  }
  __device__ __forceinline__ void store(float* to, const float4& x) const {
    if (aligned) {
      *reinterpret_cast<float4*>(to) = x;
      return;
    }
    if (n > 0) to[0] = x.x;
    if (n > 1) to[1] = x.y;
    if (n > 2) to[2] = x.z;
    if (n > 3) to[3] = x.w;
  }
};
__device__ __forceinline__ bool is_aligned(const View& view) { return (static_cast<uint64_t>(view.base) | view.stride) % 16 == 0; }

// y = sum * scales (+ bias) (+ residual). The sums of a warp go through its shared memory, 32 rows at a time, so that lanes write 16 bytes.
template <int kRows>
__device__ __forceinline__ void write_wide_results(const Matrix& step, int tile, int first_row, int n_rows, int lane, float* shared,
                                                   const float (&row_scales)[kRows / 8], const float (&total)[kRows / 8][4]) {
  constexpr int kStride = kWideResultStride, kGroups = kRows / 8 < kWideResultRows / 8 ? kRows / 8 : kWideResultRows / 8;
  const int g = lane / 4, t = lane % 4, n = tile * 16 + t * 4, n_left = step.weights.n - n;
  const FourColumns of_out{n_left, n_left >= 4 && is_aligned(step.out)}, of_residual{n_left, n_left >= 4 && is_aligned(step.residual)};
  const bool has_scales = step.weights.scales != Address::kNone, has_bias = step.bias != Address::kNone,
             has_residual = step.residual.base != Address::kNone;
  float4 scale = make_float4(1, 1, 1, 1), bias = make_float4(0, 0, 0, 0);
  if (has_scales) scale = FourColumns{n_left, false}.load(pointer<float>(step.weights.scales) + n);
  if (has_bias) bias = FourColumns{n_left, false}.load(pointer<float>(step.bias) + n);
#pragma unroll
  for (int first = 0; first < kRows / 8; first += kGroups) {
    float4 residual[kGroups];
#pragma unroll
    for (int r = 0; r < kGroups; ++r) {
      const int64_t m = first_row + (first + r) * 8 + g;
      if (has_residual && m < n_rows) residual[r] = of_residual.load(pointer<float>(step.residual.base, m * step.residual.stride) + n);
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kGroups; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) shared[(j * 8 + t * 2 + i % 2) * kStride + g + i / 2 * 8] = total[first + j][i];
    __syncwarp();
#pragma unroll
    for (int r = 0; r < kGroups; ++r) {
      const int64_t m = first_row + (first + r) * 8 + g;
      if (m >= n_rows || !is_selected(step.selection, m)) continue;
      float4 y = *reinterpret_cast<const float4*>(shared + (r * 8 + g) * kStride + t * 4);
      const float x_scale = row_scales[first + r];
      y.x = y.x * x_scale, y.y = y.y * x_scale, y.z = y.z * x_scale, y.w = y.w * x_scale;
      if (has_scales) y.x = y.x * scale.x, y.y = y.y * scale.y, y.z = y.z * scale.z, y.w = y.w * scale.w;
      if (has_bias) y.x = y.x + bias.x, y.y = y.y + bias.y, y.z = y.z + bias.z, y.w = y.w + bias.w;
      if (has_residual) y.x = y.x + residual[r].x, y.y = y.y + residual[r].y, y.z = y.z + residual[r].z, y.w = y.w + residual[r].w;
      of_out.store(pointer<float>(step.out.base, m * step.out.stride) + n, y);
    }
  }
}

}  // namespace kvik::cuda
