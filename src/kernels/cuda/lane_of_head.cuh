#pragma once

#include "kernels/cuda/attend_rule.cuh"

// A head of a row in the registers of a warp: rotated, converted, appended.
namespace kvik::cuda {

// What a lane has of a head of at most kMost elements: lane, lane + 32, …
template <int kMost>
struct LaneOfHead {
  static constexpr int kCount = kMost / 32;
  float values[kCount];

  // How a head is rotated, with the angles of the lane's elements.
  struct Turn {
    int n_pairs = 0;
    bool interleaved = false;
    float cos[kCount], sin[kCount];

    __device__ __forceinline__ void load(const RotaryOf& rotary, const RowAt& row) {
      if (!rotary.there) return;
      n_pairs = rotary.n_pairs, interleaved = rotary.interleaved;
      const float *cos_row = row_of<float>(rotary.cos, row), *sin_row = row_of<float>(rotary.sin, row);
#pragma unroll
      for (int c = 0; c < kCount; ++c) {
        const int d = threadIdx.x % 32 + 32 * c;
        if (d >= 2 * n_pairs) continue;
        const int pair = interleaved ? d / 2 : d < n_pairs ? d : d - n_pairs;
        cos[c] = __ldcg(cos_row + pair), sin[c] = __ldcg(sin_row + pair);
      }
    }
  };

  // Zeros behind n.
  __device__ __forceinline__ void load(const float* x, int n, const Turn& turn) {
    float others[kCount];
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const int d = threadIdx.x % 32 + 32 * c;
      values[c] = d < n ? __ldcg(x + d) : 0.0f;
      if (d >= 2 * turn.n_pairs) continue;
      const bool is_first = turn.interleaved ? d % 2 == 0 : d < turn.n_pairs;
      const int apart = turn.interleaved ? 1 : turn.n_pairs;
      const float other = __ldcg(is_first ? x + d + apart : x + d - apart);
      others[c] = is_first ? -other : other;
    }
#pragma unroll
    for (int c = 0; c < kCount; ++c)
      if (static_cast<int>(threadIdx.x % 32) + 32 * c < 2 * turn.n_pairs)
        values[c] = fused(others[c], turn.sin[c], values[c] * turn.cos[c]);
  }
  // Finite numbers stay finite in a page.
  __device__ __forceinline__ void clip() {
#pragma unroll
    for (float& value : values) value = clip_of(value, -kLargestHalf, kLargestHalf);
  }
  __device__ __forceinline__ void store(float* out, int n) const {
#pragma unroll
    for (int c = 0; c < kCount; ++c)
      if (static_cast<int>(threadIdx.x % 32) + 32 * c < n) __stcg(out + threadIdx.x % 32 + 32 * c, values[c]);
  }
  // As f16, multiplied by `factor`: put(element, bits), and put_low(element, bits) for the second of two planes.
  template <int kPlanes, class Put, class PutLow>
  __device__ __forceinline__ void each_half(int n, float factor, Put put, PutLow put_low) const {
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const int d = threadIdx.x % 32 + 32 * c;
      if (d >= n) continue;
      const float scaled = values[c] * factor;
      const uint16_t high = half_bits(scaled);
      put(d, high);
      if constexpr (kPlanes == 2) put_low(d, half_bits((scaled - half_value(high)) * kPlaneStep));
    }
  }
};

// Keys or values of a head, clipped, into the pages of the row's sequence and of its branches.
template <int kPlanes, int kMost>
__device__ __forceinline__ void append_head(const Append& step, const Row& row, int64_t slot, int kv_head, bool values,
                                            const LaneOfHead<kMost>& head) {
  const int kept = values ? step.layout.value_stride : step.layout.key_stride, in_page = row.position % kPagePositions;
  const int64_t offset = step.page_offset + kv_head * step.layout.head_bytes + (values ? step.layout.values_offset : 0);
#pragma unroll 1
  for (int target = 0; target <= row.n_branches; ++target) {
    const int64_t to = target == 0 ? slot : __ldcg(pointer<int32_t>(step.branches) + row.first_branch + target - 1);
    const uint64_t page = __ldcg(pointer<uint64_t>(step.pages.pages) + to * step.pages.n_pages + row.position / kPagePositions);
    auto* out = reinterpret_cast<uint16_t*>(page + offset) + in_page * kept;
    head.template each_half<kPlanes>(
        kept, 1.0f, [&](int d, uint16_t bits) { __stcg(out + d, bits); },
        [&](int d, uint16_t bits) { __stcg(out + kPagePositions * kept + d, bits); });
  }
}

}  // namespace kvik::cuda
