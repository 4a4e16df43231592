#pragma once

#include "kernels/cuda/attend_rule.cuh"
#include "kernels/cuda/row_memory.cuh"
#include "kernels/cuda/unit_formats.cuh"

// Row steps that read weights or know pages. As in row_steps.cuh.
namespace kvik::cuda {

// Keys or values of one position into a page, and their low plane behind.
__device__ __noinline__ void keep_head(const float* x, int n, int stride, int planes, int position, uint16_t* out, int lane) {
  constexpr int kBatch = 4;  // loads in flight
#pragma unroll 1
  for (int base = lane; base < stride; base += 32 * kBatch) {
    float values[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) values[k] = base + 32 * k < n ? clip_of(x[base + 32 * k], -kLargestHalf, kLargestHalf) : 0.0f;
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = base + 32 * k;
      if (i >= stride) continue;
      const uint16_t high = half_bits(values[k]);
      out[position * stride + i] = high;
      if (planes == 2) out[(kPagePositions + position) * stride + i] = half_bits((values[k] - half_value(high)) * kPlaneStep);
    }
  }
}

__device__ __noinline__ Written run_step(const Append& step, RowMemory& memory) {
  const KvLayout& layout = step.layout;
  const Row& row = *memory.row.row;
  const int lane = threadIdx.x % 32, position = row.position, in_page = position % kPagePositions;
  const float *k = input<float>(memory, step.k), *v = input<float>(memory, step.v);
  const int n_targets = 1 + row.n_branches;
  for (int i = threadIdx.x / 32; i < n_targets * layout.n_heads * 2; i += kRowThreads / 32) {
    const int is_value = i % 2, head = i / 2 % layout.n_heads, target = i / 2 / layout.n_heads;
    int64_t slot = step.from_source ? row.source_slot : row.slot;
    if (target > 0) slot = pointer<int32_t>(step.branches)[row.first_branch + target - 1];
    const Address page = pointer<Address>(step.pages.pages)[slot * step.pages.n_pages + position / kPagePositions];
    const int64_t offset = step.page_offset + head * layout.head_bytes + (is_value != 0 ? layout.values_offset : 0);
    const int n = is_value != 0 ? layout.value_dim : layout.key_dim, stride = is_value != 0 ? layout.value_stride : layout.key_stride;
    keep_head((is_value != 0 ? v : k) + head * n, n, stride, layout.planes, in_page, pointer<uint16_t>(page, offset), lane);
  }
  return {};
}

// One element of packed weights; see units.h.
template <WeightFormat kFormat>
__device__ __forceinline__ float unit_value(const Weights& weights, int n, int k) {
  constexpr bool kFourBits = kFormat == WeightFormat::kQ4 || kFormat == WeightFormat::kQ4Zero;
  constexpr int kUnitColumns = Unit<kFormat>::kColumns, kUnitBytes = Unit<kFormat>::kBytes;
  const int64_t units_per_tile = (weights.k + kUnitColumns - 1) / kUnitColumns;
  const uint8_t* unit = pointer<uint8_t>(weights.units, (n / 16 * units_per_tile + k / kUnitColumns) * kUnitBytes);
  const int reg = n % 16 / 8 + k % 16 / 8 * 2, half = k % 2, step = k % kUnitColumns / 16;
  const uint8_t* lane = unit + (n % 8 * 4 + k % 8 / 2) * 16;
  if constexpr (kFormat == WeightFormat::kF16 || kFormat == WeightFormat::kF32) {
    const auto* place = reinterpret_cast<const uint16_t*>(lane + step * 512 + reg * 4 + half * 2);
    const float value = half_value(place[0]);
    return kFormat == WeightFormat::kF16 ? value : value + half_value(place[512]) * (1.0f / kPlaneStep);
  } else {
    const int nibble = reg + 4 * half;
    const int code = kFourBits ? lane[step * 4 + nibble / 2] >> (nibble % 2 * 4) & 15 : lane[step * 8 + reg * 2 + half];
    const int index = k % kUnitColumns / kBlockColumns * 16 + n % 8 * 2 + n % 16 / 8;
    if constexpr (kFormat == WeightFormat::kQ8Zero || kFormat == WeightFormat::kQ4Zero) {
      const uint8_t* scale = unit + 512 + index * 8;
      const float zero = half_value(*reinterpret_cast<const uint16_t*>(scale + 4)) - 1024.0f;
      return (static_cast<float>(code) - zero) * *reinterpret_cast<const float*>(scale);
    } else {
      return static_cast<float>(code - (kFourBits ? 8 : 128)) * half_value(reinterpret_cast<const uint16_t*>(unit + 512)[index]);
    }
  }
}

template <WeightFormat kFormat>
__device__ __noinline__ void embed(const Weights& weights, int token, const Result& out) {
  constexpr int kBatch = 4;  // loads in flight
  const float scale = weights.scales == Address::kNone ? 1.0f : pointer<float>(weights.scales)[token];
#pragma unroll 1
  for (int base = threadIdx.x; base < weights.k; base += kBatch * kRowThreads) {
    float value[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) value[i] = unit_value<kFormat>(weights, token, min(base + i * kRowThreads, weights.k - 1));
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if (base + i * kRowThreads < weights.k) out.put(base + i * kRowThreads, value[i] * scale);
  }
}

__device__ __noinline__ Written run_step(const Embed& step, RowMemory& memory) {
  int64_t token = step.narrow ? *row_of<int32_t>(step.token, memory.row) : *row_of<int64_t>(step.token, memory.row);
  if (token < 0) token += step.weights.n;
  if (token < 0 || token >= step.weights.n) {
    if (threadIdx.x == 0) *pointer<int32_t>(step.error) = 1;
    token = 0;
  }
  Written written;
  const Result out = result(memory, step.out, step.weights.k, written);
  const auto n = static_cast<int>(token);
  switch (step.weights.format) {
    case WeightFormat::kF16: embed<WeightFormat::kF16>(step.weights, n, out); break;
    case WeightFormat::kF32: embed<WeightFormat::kF32>(step.weights, n, out); break;
    case WeightFormat::kQ8: embed<WeightFormat::kQ8>(step.weights, n, out); break;
    case WeightFormat::kQ4: embed<WeightFormat::kQ4>(step.weights, n, out); break;
    case WeightFormat::kQ8Zero: embed<WeightFormat::kQ8Zero>(step.weights, n, out); break;
    case WeightFormat::kQ4Zero: embed<WeightFormat::kQ4Zero>(step.weights, n, out); break;
  }
  return written;
}

// Sums of attention parts for 4 dimensions of a lane.
struct LanePart {
  float largest, sum, values[4];
};

__device__ __forceinline__ void merge_parts(LanePart& into, const LanePart& part) {
  const float largest = part.largest > into.largest ? part.largest : into.largest;
  const float a = part_weight(into.largest, largest), b = part_weight(part.largest, largest);
  into.largest = largest;
  into.sum = fused(part.sum, b, into.sum * a);
#pragma unroll
  for (int i = 0; i < 4; ++i) into.values[i] = fused(part.values[i], b, into.values[i] * a);
}

__device__ __noinline__ Written run_step(const MergeSpans& step, RowMemory& memory) {
  const int lane = threadIdx.x % 32, chunks = (step.value_dim + 127) / 128;
  const int positions = kSpanPositions * step.parts.spans_a_part, per_group = kSpanGroupPositions / positions;
  const Visible visible = visible_keys(step.rule, *memory.row.row);
  const int begin = visible.first / positions, end = (visible.end + positions - 1) / positions;
  Written written;
  const Result out = result(memory, step.out, static_cast<int64_t>(step.n_heads) * step.value_dim, written);
  constexpr int kBatch = 4;  // parts in flight
#pragma unroll 1
  for (int item = threadIdx.x / 32; item < step.n_heads * chunks; item += kRowThreads / 32) {
    const int head = item / chunks, first = item % chunks * 128 + lane;
    const float* parts =
        pointer<float>(step.parts.parts) + (memory.row.index * step.n_heads + head) * step.parts.n_parts * (2 + step.value_dim);
    LanePart whole{-infinity(), 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}}, group = whole, read[kBatch];
#pragma unroll 1
    for (int base = begin; base < end; base += kBatch) {
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const float* from = parts + static_cast<int64_t>(base + k) * (2 + step.value_dim);
        if (base + k >= end) continue;
        read[k].largest = from[0], read[k].sum = from[1];
#pragma unroll
        for (int i = 0; i < 4; ++i) read[k].values[i] = first + 32 * i < step.value_dim ? from[2 + first + 32 * i] : 0.0f;
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int index = base + k;
        if (index >= end) continue;
        if (index == begin || index % per_group == 0)
          group = read[k];
        else
          merge_parts(group, read[k]);
        if (index + 1 < end && (index + 1) % per_group != 0) continue;
        if (index / per_group == begin / per_group)
          whole = group;
        else
          merge_parts(whole, group);
      }
    }
    const Quotient q = quotient_of(step.rule, head, whole.largest, whole.sum);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (first + 32 * i < step.value_dim)
        out.put(static_cast<int64_t>(head) * step.value_dim + first + 32 * i, whole.values[i] * q.factor / q.divisor);
  }
  return written;
}

}  // namespace kvik::cuda
