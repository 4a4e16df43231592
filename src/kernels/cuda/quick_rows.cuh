#pragma once

#include "kernels/cuda/stream_rows.cuh"

// The rows of a quick product as f16 in shared memory: normed, converted. One row is shared by all threads of the block, of several rows
// each warp has one. Every block does all of it, for the columns that it multiplies; one block writes the values that other steps may read.
namespace kvik::cuda {

struct QuickShared {
  float scales[kStreamRows];  // what products are multiplied by
  float strands[kStrands];
  uint32_t warp_largest[kQuickWarps], block_largest[kStreamRows];
};

// 1.0f / root_of(squares / k + epsilon), rounded as the operators round, without their code for numbers that cannot occur here: epsilon is
// at least kLeastEpsilon. Each approximation is corrected by what it is off.
__device__ __forceinline__ float inverse_root(const QuickLaunch& launch, float squares) {
  const float k = static_cast<float>(launch.k);
  float mean = squares * launch.inverse_k;
  mean = fused(fused(-mean, k, squares), launch.inverse_k, mean);
  const float x = mean + launch.epsilon;
  float near;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(x));
  float root = x * near;
  root = fused(fused(-root, root, x), 0.5f * near, root);
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(root));
  const float inverse = fused(near, fused(-root, near, 1.0f), near);
  return squares == infinity() ? 0.0f : inverse;
}

// 256 strands (order.h), one for each thread, and their tree. All threads get the sum.
__device__ __forceinline__ float join_block(float strand, QuickShared& kept) {
  kept.strands[threadIdx.x] = strand;
  __syncthreads();
  float s[kStrands / 32];
#pragma unroll
  for (int j = 0; j < kStrands / 32; ++j) s[j] = kept.strands[threadIdx.x % 32 + 32 * j];
#pragma unroll
  for (int half = kStrands / 64; half > 0; half /= 2)
#pragma unroll
    for (int j = 0; j < half; ++j) s[j] = s[j] + s[j + half];
  float x = s[0];
#pragma unroll
  for (int half = 16; half > 0; half /= 2) x = x + __shfl_down_sync(~0u, x, half);
  return __shfl_sync(~0u, x, 0);
}
__device__ __forceinline__ uint32_t largest_of_block(uint32_t largest, QuickShared& kept) {
  largest = __reduce_max_sync(~0u, largest);
  if (threadIdx.x % 32 == 0) kept.warp_largest[threadIdx.x / 32] = largest;
  __syncthreads();
  return __reduce_max_sync(~0u, kept.warp_largest[threadIdx.x % kQuickWarps]);
}
__device__ __forceinline__ void put_scale(const QuickLaunch& launch, int row, uint32_t largest, bool writes, QuickShared& kept) {
  const float scale = power_of_two(-half_exponent(largest));
  kept.scales[row] = scale;
  if (writes) *row_at<float>(launch.x_scale, row) = scale;
}

// One row: thread t has elements t, t + 256, …, a few at a time, so that short rows take few instructions. do(j, whether it is there)
template <int kColumns, class Do>
__device__ __forceinline__ void each_of_one(int end, Do what) {
  constexpr int kAtOnce = 6;
  const int left = end - static_cast<int>(threadIdx.x);
#pragma unroll
  for (int first = 0; first < kColumns; first += kAtOnce) {
    if (first * kQuickThreads >= end) break;
#pragma unroll
    for (int j = first; j < first + kAtOnce; ++j) what(j, j * kQuickThreads < left);
  }
}
template <bool kNorms, int kColumns>
class OneRow {
 public:
  // What does not depend on earlier launches.
  __device__ __forceinline__ OneRow(const QuickLaunch& launch, uint16_t* rows)
      : launch_(launch), k_(launch.k), padded_((launch.k + 63) / 64 * 64), rows_(rows + threadIdx.x) {
    x_ = pointer<float>(launch.x.base) + threadIdx.x;
    if constexpr (kNorms) {
      const float* gain = pointer<float>(launch.gain) + threadIdx.x;
      each_of_one<kColumns>(k_,
                            [&](int j, bool there) { gain_[j] = launch.gain != Address::kNone && there ? gain[j * kQuickThreads] : 1.0f; });
    }
  }
  __device__ __forceinline__ void take(bool writes, QuickShared& kept) {
    each_of_one<kColumns>(padded_, [&](int j, bool) {
      v_[j] = j * kQuickThreads < k_ - static_cast<int>(threadIdx.x) ? __ldcg(x_ + j * kQuickThreads) : 0.0f;
    });
    if constexpr (kNorms) {
      float strand = 0.0f;
      each_of_one<kColumns>(padded_, [&](int j, bool) { strand = fused(v_[j], v_[j], strand); });
      const float inverse = inverse_root(launch_, join_block(strand, kept));
      each_of_one<kColumns>(k_, [&](int j, bool there) {
        if (there) v_[j] = v_[j] * inverse * gain_[j];  // without gains: 1, which changes nothing
      });
    }
    uint32_t largest = 0;
    each_of_one<kColumns>(padded_, [&](int j, bool) { largest = max(largest, magnitude(v_[j])); });
    largest = largest_of_block(largest, kept);
    const float factor = power_of_two(half_exponent(largest));
    each_of_one<kColumns>(padded_, [&](int j, bool there) {
      if (there) rows_[j * kQuickThreads] = half_bits(v_[j] * factor);
    });
    if (threadIdx.x == 0) put_scale(launch_, 0, largest, writes, kept);
    if (!writes) return;
    float* normed = pointer<float>(launch_.normed.base) + threadIdx.x;
    uint16_t* halves = pointer<uint16_t>(launch_.halves.base) + threadIdx.x;
    if constexpr (kNorms)
      each_of_one<kColumns>(k_, [&](int j, bool there) {
        if (there) normed[j * kQuickThreads] = v_[j];
      });
    each_of_one<kColumns>(padded_, [&](int j, bool there) {
      if (there) halves[j * kQuickThreads] = half_bits(v_[j] * factor);
    });
  }

 private:
  const QuickLaunch& launch_;
  int k_, padded_;
  uint16_t* rows_;
  const float* x_;
  float gain_[kNorms ? kColumns : 1], v_[kColumns];
};

// Up to eight rows: lane l of a row's warp has quads l, l + 32, …, so that its strands are its own.
template <bool kNorms>
class WarpRows {
 public:
  __device__ __forceinline__ WarpRows(const QuickLaunch& launch, float* gains) : launch_(launch), gains_(gains) {
    if constexpr (kNorms) {
      for (int i = 4 * threadIdx.x; i < launch.k && launch.gain != Address::kNone; i += 4 * kQuickThreads)
        copy_async(shared_address(gains + i), pointer<float>(launch.gain) + i, true);
      commit_copies();
      wait_copies<0>();
      __syncthreads();
    }
  }
  __device__ __forceinline__ void take(uint16_t* rows, int n_rows, bool writes, QuickShared& kept) {
    const int row = threadIdx.x / 32, lane = threadIdx.x % 32, n_quads = launch_.k / 4, padded = (launch_.k + 63) / 64 * 16;
    if (row >= launch_.most) return;
    writes = writes && row < n_rows;
    const float4* x = row_at<float4>(launch_.x, row);
    float4 v[kQuickQuads];
#pragma unroll
    for (int m = 0; m < kQuickQuads; ++m) v[m] = lane + 32 * m < n_quads ? __ldcg(x + lane + 32 * m) : make_float4(0, 0, 0, 0);
    if constexpr (kNorms) norm(v, lane, n_quads);
    uint32_t largest = 0;
#pragma unroll
    for (int m = 0; m < kQuickQuads; ++m) largest = max(largest, largest_of(v[m]));
    largest = __reduce_max_sync(~0u, largest);
    const float factor = power_of_two(half_exponent(largest));
    auto* to = reinterpret_cast<uint2*>(rows + row * launch_.row_stride);
#pragma unroll
    for (int m = 0; m < kQuickQuads; ++m) {
      const int quad = lane + 32 * m;
      if (quad >= padded) continue;
      const uint2 halves = halves_of(v[m], factor);
      to[quad] = halves;
      if (!writes) continue;
      row_at<uint2>(launch_.halves, row)[quad] = halves;
      if (kNorms && quad < n_quads) row_at<float4>(launch_.normed, row)[quad] = v[m];
    }
    if (lane == 0) put_scale(launch_, row, largest, writes, kept);
  }

 private:
  __device__ __forceinline__ void norm(float4 (&v)[kQuickQuads], int lane, int n_quads) const {
    float4 sums[2] = {};
#pragma unroll
    for (int m = 0; m < kQuickQuads; ++m) {
      float4& s = sums[m % 2];
      s.x = fused(v[m].x, v[m].x, s.x), s.y = fused(v[m].y, v[m].y, s.y);
      s.z = fused(v[m].z, v[m].z, s.z), s.w = fused(v[m].w, v[m].w, s.w);
    }
    float4 a = make_float4(sums[0].x + sums[1].x, sums[0].y + sums[1].y, sums[0].z + sums[1].z, sums[0].w + sums[1].w);
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
      a.x = a.x + __shfl_down_sync(~0u, a.x, half), a.y = a.y + __shfl_down_sync(~0u, a.y, half);
      a.z = a.z + __shfl_down_sync(~0u, a.z, half), a.w = a.w + __shfl_down_sync(~0u, a.w, half);
    }
    const float inverse = inverse_root(launch_, __shfl_sync(~0u, (a.x + a.z) + (a.y + a.w), 0));
    const bool weighs = launch_.gain != Address::kNone;
#pragma unroll
    for (int m = 0; m < kQuickQuads; ++m) {
      if (lane + 32 * m >= n_quads) continue;
      float4 y = make_float4(v[m].x * inverse, v[m].y * inverse, v[m].z * inverse, v[m].w * inverse);
      if (weighs) {
        const float4 w = reinterpret_cast<const float4*>(gains_)[lane + 32 * m];
        y = make_float4(y.x * w.x, y.y * w.y, y.z * w.z, y.w * w.w);
      }
      v[m] = y;
    }
  }

  const QuickLaunch& launch_;
  const float* gains_;
};

// Columns that a block multiplies, of rows whose largest magnitude the launch before has left in parts.
struct QuickColumns {
  int begin, end;  // quads
  int at;          // the first one, in elements from the start of a row in shared memory
  bool writes;     // to memory, too: one block does
};
template <int kRows>
class KnownRows {
 public:
  __device__ __forceinline__ explicit KnownRows(const QuickLaunch& launch) : launch_(launch) {
    row_ = kRows == 1 ? 0 : threadIdx.x / 32;
    const auto* parts = pointer<uint32_t>(launch.largest_in) + row_ * launch.n_largest;
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
      const int i = threadIdx.x % 32 + 32 * j;
      part_[j] = row_ < launch.most && i < launch.n_largest ? __ldcg(parts + i) : 0;
    }
  }
  // All lanes of a warp have equally many turns.
  __device__ __forceinline__ void take(uint16_t* rows, const QuickColumns& columns, int n_rows) {
    constexpr int kStep = kRows == 1 ? kQuickThreads : 32, kAtOnce = kRows == 1 ? 2 : 8;
    if (row_ >= launch_.most) return;
    const int first = kRows == 1 ? threadIdx.x : threadIdx.x % 32, n_quads = launch_.k / 4;
    const float4* x = row_at<float4>(launch_.x, row_);
    auto* to = reinterpret_cast<uint2*>(rows + row_ * launch_.row_stride + columns.at) - columns.begin;
    const bool writes = columns.writes && row_ < n_rows;
#pragma unroll 1
    for (int base = columns.begin; base < columns.end; base += kAtOnce * kStep) {
      float4 v[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = base + first + j * kStep;
        v[j] = i < columns.end && i < n_quads ? __ldcg(x + i) : make_float4(0, 0, 0, 0);
      }
      find_largest();
      const float factor = power_of_two(half_exponent(largest_));
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = base + first + j * kStep;
        if (i >= columns.end) continue;
        const uint2 halves = halves_of(v[j], factor);
        to[i] = halves;
        if (writes) row_at<uint2>(launch_.halves, row_)[i] = halves;
      }
    }
  }
  __device__ __forceinline__ void put_scales(int n_rows, bool writes, QuickShared& kept) {
    if (row_ < launch_.most && (kRows == 1 ? threadIdx.x : threadIdx.x % 32) == 0)
      put_scale(launch_, row_, largest_, writes && row_ < n_rows, kept);
  }

 private:
  static constexpr int kParts = (kMostQuickBlocks + 31) / 32;
  __device__ __forceinline__ void find_largest() {
    if (known_) return;
#pragma unroll
    for (int j = 0; j < kParts; ++j) largest_ = max(largest_, part_[j]);
    largest_ = __reduce_max_sync(~0u, largest_);
    known_ = true;
  }

  const QuickLaunch& launch_;
  int row_;
  uint32_t part_[kParts], largest_ = 0;
  bool known_ = false;
};

}  // namespace kvik::cuda
