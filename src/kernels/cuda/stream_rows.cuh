#pragma once

#include "kernels/cuda/common.cuh"

// The rows of a streamed product, as f16 in shared memory: copied, or converted by the block itself, or normed and converted. Every block
// does all of it, for the columns that it multiplies; the values that other steps may read are written by one block.
namespace kvik::cuda {

// Threads that share a row: 1 << shift.
struct Team {
  int shift, size, index, thread;
  __device__ __forceinline__ explicit Team(int n) : shift(n), size(1 << n) {
    index = static_cast<int>(threadIdx.x) >> n, thread = static_cast<int>(threadIdx.x) & (size - 1);
  }
  __device__ __forceinline__ int share(int n) const { return (n + size - 1) >> shift; }  // of n, that the first thread has
  __device__ __forceinline__ void sync() const {
    if (size == 32)
      __syncwarp();
    else
      asm volatile("bar.sync %0, %1;" ::"r"(index + 1), "r"(size) : "memory");
  }
};

struct StreamRows {
  uint16_t* rows;          // [rows][stride], from column `first` on
  float* scales;           // [kStreamRows]: what products are multiplied by
  uint32_t* warp_largest;  // [warps]
  int stride, first, end;  // columns
  bool writes;             // norms and scales
  int write_first;         // f16 from this column on
};

template <class T>
__device__ __forceinline__ T* row_at(const StreamView& view, int row) {
  return pointer<T>(view.base, row * view.stride);
}

// What the model has of the norm begins to arrive, before the weights and before the launch waits for others.
__device__ __forceinline__ void stage_gains(const StreamLaunch& launch, float* gains) {
  const int k = launch.k;
#pragma unroll 1
  for (int i = 4 * threadIdx.x; i < k; i += 4 * kStreamThreads) {
    if (launch.gain != Address::kNone)
      copy_async(shared_address(gains + i), pointer<float>(launch.gain) + i, true);
    else
      *reinterpret_cast<float4*>(gains + i) = make_float4(1, 1, 1, 1);
    if (launch.gain_bias != Address::kNone) copy_async(shared_address(gains + k + i), pointer<float>(launch.gain_bias) + i, true);
  }
  commit_copies();
}

// Does something for each quad that a thread may have. `left`: how many the first thread of the team has; what nobody has is skipped.
template <class Do>
__device__ __forceinline__ void each_quad(int left, Do what) {
  constexpr int kAtOnce = 2;
#pragma unroll
  for (int first = 0; first < kStreamQuads; first += kAtOnce) {
    if (first >= left) break;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) what(first + j);
  }
}

// 256 strands (order.h) of a row in shared memory, four neighbors to a thread, and their tree. `strands`: kStrands floats.
__device__ __noinline__ float fold_row(bool squares, const float4* x, int n_quads, float mean, const Team team, float4* strands) {
  constexpr int kQuads = kStrands / 4;
  for (int s = team.thread; s < kQuads; s += team.size) {
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 3
    for (int i = s; i < n_quads; i += kQuads) {
      const float4 v = x[i];
      if (squares) {
        sum.x = fused(v.x - mean, v.x - mean, sum.x), sum.y = fused(v.y - mean, v.y - mean, sum.y);
        sum.z = fused(v.z - mean, v.z - mean, sum.z), sum.w = fused(v.w - mean, v.w - mean, sum.w);
      } else {
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
      }
    }
    strands[s] = sum;
  }
  team.sync();
  const int lane = threadIdx.x % 32;
  float4 a = strands[lane], b = strands[lane + 32];
  a.x += b.x, a.y += b.y, a.z += b.z, a.w += b.w;
#pragma unroll
  for (int half = 16; half > 0; half /= 2) {
    b.x = __shfl_down_sync(~0u, a.x, half), b.y = __shfl_down_sync(~0u, a.y, half);
    b.z = __shfl_down_sync(~0u, a.z, half), b.w = __shfl_down_sync(~0u, a.w, half);
    a.x += b.x, a.y += b.y, a.z += b.z, a.w += b.w;
  }
  return __shfl_sync(~0u, (a.x + a.z) + (a.y + a.w), 0);
}

// The norm of a row of which each thread has every team.size-th quad, from its own on.
__device__ __forceinline__ void norm_row(const StreamLaunch& launch, const float4* stage, float4* strands, const float4* gains,
                                         const Team& team, float4 (&v)[kStreamQuads]) {
  const int n_quads = launch.k / 4;
  const auto n = static_cast<float>(launch.k);
  float mean = 0.0f;
  if (launch.is_centered) {
    mean = fold_row(false, stage, n_quads, 0.0f, team, strands) / n;
    team.sync();
  }
  const float inverse = 1.0f / root_of(fold_row(true, stage, n_quads, mean, team, strands) / n + launch.epsilon);
  const bool has_bias = launch.gain_bias != Address::kNone;
  each_quad(team.share(n_quads), [&](int j) {
    const int i = team.thread + j * team.size;
    if (i >= n_quads) return;
    const float4 w = gains[i], b = gains[has_bias ? n_quads + i : i];
    const auto normed = [&](float x, float weight, float bias) {
      const float y = (x - mean) * inverse;
      return has_bias ? fused(y, weight, bias) : y * weight;
    };
    v[j] = make_float4(normed(v[j].x, w.x, b.x), normed(v[j].y, w.y, b.y), normed(v[j].z, w.z, b.z), normed(v[j].w, w.w, b.w));
  });
}

__device__ __forceinline__ uint32_t magnitude(float x) { return bits_of(x) & 0x7fffffffu; }
__device__ __forceinline__ uint32_t largest_of(const float4& v) {
  return max(max(magnitude(v.x), magnitude(v.y)), max(magnitude(v.z), magnitude(v.w)));
}
__device__ __forceinline__ uint2 halves_of(const float4& v, float factor) {
  const __half2 low = __floats2half2_rn(v.x * factor, v.y * factor), high = __floats2half2_rn(v.z * factor, v.w * factor);
  return {*reinterpret_cast<const uint32_t*>(&low), *reinterpret_cast<const uint32_t*>(&high)};
}

__device__ __forceinline__ uint32_t team_largest(uint32_t largest, const Team& team, uint32_t* warp_largest) {
  largest = __reduce_max_sync(~0u, largest);
  if (team.size == 32) return largest;
  if (threadIdx.x % 32 == 0) warp_largest[threadIdx.x / 32] = largest;
  team.sync();
  const int n = team.size / 32;
  return __reduce_max_sync(~0u, warp_largest[team.index * n + (threadIdx.x & (n - 1))]);
}

// All threads call it; a barrier of the block has to follow. A thread keeps its share of the row in registers. Where the launch before has
// left the largest magnitude, that is only the columns that the block needs, some at a time. `stage`, for norms: [rows][k] floats, then
// [rows][kStrands].
__device__ __forceinline__ void convert_rows(const StreamLaunch& launch, const StreamRows& to, float4* stage, const float4* gains,
                                             int n_rows) {
  const bool normed = launch.input == StreamInput::kNormed, is_known = launch.largest_in != Address::kNone;
  static_assert(kStreamThreads == 256 && kStrands == 256);  // teams have a strand for each thread
  const Team team(8 - launch.row_shift);
  const int row = team.index, n_quads = launch.k / 4, end = is_known ? to.end / 4 : (launch.k + 63) / 64 * 16;
  if (row >= launch.most) return;
  const auto* x = row_at<float4>(launch.x, row);
  uint16_t *rows = to.rows + row * to.stride - to.first, *out = row_at<uint16_t>(launch.halves, row);
  const int write_first = row < n_rows ? to.write_first : to.end;
  uint32_t largest = 0;
  float4 v[kStreamQuads];
#pragma unroll 1
  for (int start = is_known ? to.first / 4 : 0; start < end; start += kStreamQuads * team.size) {
    const int base = start + team.thread, left = team.share(end - start);
    each_quad(left, [&](int j) {
      const int i = base + j * team.size;
      v[j] = i < end && i < n_quads ? __ldcg(x + i) : make_float4(0, 0, 0, 0);
    });
    if (normed) {
      stage += row * n_quads;
      each_quad(left, [&](int j) {
        if (base + j * team.size < n_quads) stage[base + j * team.size] = v[j];
      });
      team.sync();
      norm_row(launch, stage, stage + (launch.most - row) * n_quads + row * (kStrands / 4), gains, team, v);
      if (to.writes && row < n_rows) {
        each_quad(left, [&](int j) {
          if (base + j * team.size < n_quads) row_at<float4>(launch.normed, row)[base + j * team.size] = v[j];
        });
      }
    }
    if (!is_known) {
      each_quad(left, [&](int j) { largest = max(largest, largest_of(v[j])); });
      largest = team_largest(largest, team, to.warp_largest);
    } else if (largest == 0) {
      const auto* parts = pointer<uint32_t>(launch.largest_in) + row * launch.n_largest;
#pragma unroll 5
      for (int i = threadIdx.x % 32; i < launch.n_largest; i += 32) largest = max(largest, __ldcg(parts + i));
      largest = __reduce_max_sync(~0u, largest);
    }
    const float factor = power_of_two(half_exponent(largest));
    each_quad(left, [&](int j) {
      const int column = (base + j * team.size) * 4;
      if (column < to.first || column >= to.end) return;
      const uint2 halves = halves_of(v[j], factor);
      *reinterpret_cast<uint2*>(rows + column) = halves;
      if (column >= write_first) *reinterpret_cast<uint2*>(out + column) = halves;
    });
  }
  if (team.thread > 0) return;
  const float scale = power_of_two(-half_exponent(largest));
  to.scales[row] = scale;
  if (to.writes && row < n_rows) *row_at<float>(launch.x_scale, row) = scale;
}

// Rows that are f16 in memory already.
__device__ __forceinline__ void copy_rows(const StreamLaunch& launch, const StreamRows& to) {
  const int padded = (launch.k + 63) / 64 * 64, n = (to.end - to.first) / 8, parts = launch.parts_of_row;
#pragma unroll 1
  for (int m = 0; m < launch.most; ++m) {
    const int row = parts == 1 ? m : m / parts, part = parts == 1 ? 0 : m % parts;
    const auto* x = reinterpret_cast<const uint4*>(row_at<uint16_t>(launch.x, row) + part * padded + to.first);
#pragma unroll 2
    for (int i = threadIdx.x; i < n; i += kStreamThreads) *reinterpret_cast<uint4*>(to.rows + m * to.stride + i * 8) = __ldcg(x + i);
    if (threadIdx.x == 0) to.scales[m] = __ldcg(row_at<float>(launch.x_scale, row) + part);
  }
}

}  // namespace kvik::cuda
