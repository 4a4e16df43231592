#pragma once

#include "kernels/cuda/reduce.cuh"

// What a block does for one row: every function is called by all its threads. Between two of them is a barrier.
namespace kvik::cuda {

__device__ inline void run_step(const ToHalf& step, const RowAt& row, float* shared) {
  const bool by_block = step.parts == 1;
  const int first = by_block ? threadIdx.x : threadIdx.x % 32, stride = by_block ? kRowThreads : 32;
  for (int part = by_block ? 0 : threadIdx.x / 32; part < step.parts; part += kRowThreads / 32) {
    const float* x = row_of<float>(step.x, row) + static_cast<int64_t>(part) * step.k;
    uint32_t largest = 0;
#pragma unroll 4
    for (int i = first; i < step.k; i += stride) largest = max(largest, bits_of(x[i]) & 0x7fffffffu);
    largest = __reduce_max_sync(~0u, largest);
    if (by_block) {
      auto* warps = reinterpret_cast<uint32_t*>(shared);
      if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = largest;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kRowThreads / 32; ++i) largest = max(largest, warps[i]);
    }
    const int32_t exponent = half_exponent(largest);
    const float factor = power_of_two(exponent);
    uint16_t* out = row_of<uint16_t>(step.out, row) + static_cast<int64_t>(part) * step.planes * step.padded_k;
    if (first == 0) row_of<float>(step.scale, row)[part] = power_of_two(-exponent);
#pragma unroll 4
    for (int i = first; i < step.padded_k; i += stride) {
      const float scaled = i < step.k ? x[i] * factor : 0.0f;
      const uint16_t high = half_bits(scaled);
      out[i] = high;
      if (step.planes == 2) out[step.padded_k + i] = half_bits((scaled - half_value(high)) * kPlaneStep);
    }
  }
}

__device__ __forceinline__ float operand(const float* x, Spread spread, int64_t i, int64_t group, int64_t in_group) {
  switch (spread) {
    case Spread::kAll: return x[i];
    case Spread::kEvery: return x[in_group];
    case Spread::kPerGroup: return x[group];
    default: return x[0];
  }
}

__device__ inline void run_step(const Elementwise& step, const RowAt& row, float*) {
  constexpr int kBatch = 4;  // loads in flight
  const auto size = static_cast<uint32_t>(step.n / step.groups);
  const float* in[3];
#pragma unroll
  for (int j = 0; j < 3; ++j) in[j] = row_of<float>(step.in[j], row);
  float* out = row_of<float>(step.out, row);
  const bool two = step.kind == Elementwise::Kind::kBinary || step.kind == Elementwise::Kind::kGate;
  for (int64_t base = threadIdx.x; base < step.n; base += kBatch * kRowThreads) {
    float a[kBatch], b[kBatch], c[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int64_t i = base + k * kRowThreads;
      if (i >= step.n) continue;
      const uint32_t group = step.groups == 1 ? 0 : static_cast<uint32_t>(i) / size, in_group = static_cast<uint32_t>(i) - group * size;
      a[k] = operand(in[0], step.spread[0], i, group, in_group);
      if (two || step.kind == Elementwise::Kind::kWhere) b[k] = operand(in[1], step.spread[1], i, group, in_group);
      if (step.kind == Elementwise::Kind::kWhere) c[k] = operand(in[2], step.spread[2], i, group, in_group);
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int64_t i = base + k * kRowThreads;
      if (i >= step.n) continue;
      float y = a[k];
      switch (step.kind) {
        case Elementwise::Kind::kUnary: y = unary_of(step.unary, y); break;
        case Elementwise::Kind::kBinary: y = binary_of(step.binary, y, b[k]); break;
        case Elementwise::Kind::kGate: y = unary_of(step.unary, y) * b[k]; break;
        case Elementwise::Kind::kClip: y = clip_of(y, step.low, step.high); break;
        case Elementwise::Kind::kWhere: y = y != 0.0f ? b[k] : c[k]; break;
      }
      out[i] = y;
    }
  }
}

__device__ inline void run_step(const Norm& step, const RowAt& row, float* shared) {
  const int64_t size = step.n / step.groups;
  const float* weight = step.weight.base != Address::kNone ? row_of<float>(step.weight, row) : nullptr;
  const float* bias = step.bias.base != Address::kNone ? row_of<float>(step.bias, row) : nullptr;
  for_groups(step.groups, shared, [&](auto reduce, int64_t group, int first, int stride) {
    const float* x = row_of<float>(step.x, row) + group * size;
    float* out = row_of<float>(step.out, row) + group * size;
    const auto n = static_cast<float>(size);
    float mean = 0.0f;
    if (step.centered)
      mean = reduce(
                 size, 0.0f, [&](float sum, int64_t i) { return sum + x[i]; }, Add{}) /
             n;
    const auto square = [&](float sum, int64_t i) {
      const float d = x[i] - mean;
      return fused(d, d, sum);
    };
    const float inverse = 1.0f / root_of(reduce(size, 0.0f, square, Add{}) / n + step.epsilon);
    for (int64_t i = first; i < size; i += stride) {
      const float v = (x[i] - mean) * inverse, w = weight != nullptr ? weight[i] : 1.0f;
      out[i] = bias != nullptr ? fused(v, w, bias[i]) : v * w;
    }
  });
}

__device__ inline void run_step(const Softmax& step, const RowAt& row, float* shared) {
  const int64_t size = step.n / step.groups;
  for_groups(step.groups, shared, [&](auto reduce, int64_t group, int first, int stride) {
    const float* x = row_of<float>(step.x, row) + group * size;
    float* out = row_of<float>(step.out, row) + group * size;
    const float most = reduce(
        size, -infinity(), [&](float m, int64_t i) { return Larger{}(m, x[i]); }, Larger{});
    const float total = reduce(
        size, 0.0f, [&](float sum, int64_t i) { return sum + exp_of(x[i] - most); }, Add{});
    const float log_total = log_of(total);
    for (int64_t i = first; i < size; i += stride) out[i] = step.log ? x[i] - most - log_total : exp_of(x[i] - most) / total;
  });
}

__device__ inline void run_step(const Reduction& step, const RowAt& row, float* shared) {
  const int64_t size = step.n / step.groups;
  for_groups(step.groups, shared, [&](auto reduce, int64_t group, int first, int) {
    const float* x = row_of<float>(step.x, row) + group * size;
    const auto squares = [&](float sum, int64_t i) { return fused(x[i], x[i], sum); };
    const auto plain = [&](float sum, int64_t i) { return sum + x[i]; };
    float y = 0.0f;
    switch (step.op) {
      case Reduce::kSum: y = reduce(size, 0.0f, plain, Add{}); break;
      case Reduce::kMean: y = reduce(size, 0.0f, plain, Add{}) / static_cast<float>(size); break;
      case Reduce::kMax:
        y = reduce(
            size, -infinity(), [&](float m, int64_t i) { return Larger{}(m, x[i]); }, Larger{});
        break;
      case Reduce::kMin:
        y = reduce(
            size, infinity(), [&](float m, int64_t i) { return Smaller{}(m, x[i]); }, Smaller{});
        break;
      case Reduce::kProd:
        y = reduce(
            size, 1.0f, [&](float p, int64_t i) { return p * x[i]; }, Times{});
        break;
      case Reduce::kSumSquare: y = reduce(size, 0.0f, squares, Add{}); break;
      case Reduce::kSumAbs:
        y = reduce(
            size, 0.0f, [&](float sum, int64_t i) { return sum + absolute(x[i]); }, Add{});
        break;
      case Reduce::kL2: y = root_of(reduce(size, 0.0f, squares, Add{})); break;
    }
    if (first == 0) row_of<float>(step.out, row)[group] = y;
  });
}

__device__ inline void run_step(const Rotary& step, const RowAt& row, float*) {
  const float *x = row_of<float>(step.x, row), *cos = row_of<float>(step.cos, row), *sin = row_of<float>(step.sin, row);
  float* out = row_of<float>(step.out, row);
  const auto rest = static_cast<int>(step.head_dim - step.n_pairs), n_pairs = static_cast<int>(step.n_pairs);  // pairs, then what is copied
  for (int i = threadIdx.x; i < step.n_heads * rest; i += kRowThreads) {
    const int head = i / rest, j = i % rest;
    const int64_t base = head * step.head_dim;
    if (j >= n_pairs) {
      out[base + n_pairs + j] = x[base + n_pairs + j];
      continue;
    }
    const int64_t first = base + (step.interleaved ? 2 * j : j), second = base + (step.interleaved ? 2 * j + 1 : j + n_pairs);
    const float a = x[first], b = x[second], c = cos[j], s = sin[j];
    out[first] = fused(-b, s, a * c);
    out[second] = fused(a, s, b * c);
  }
}

template <class T>
__device__ __forceinline__ void move_elements(const Move& step, const RowAt& row) {
  const MoveRun* runs = pointer<MoveRun>(step.runs);
  const View* inputs = pointer<View>(step.inputs);
  T* out = row_of<T>(step.out, row);
  const bool alone = step.n_runs > 4 * kRowThreads / 32;  // many runs are short ones: a thread each
  const int first = alone ? 0 : threadIdx.x % 32, stride = alone ? 1 : 32;
  for (int r = alone ? threadIdx.x : threadIdx.x / 32; r < step.n_runs; r += alone ? kRowThreads : kRowThreads / 32) {
    const MoveRun run = runs[r];
    const T* from = row_of<T>(inputs[run.input], row) + run.from;
    for (int i = first; i < run.count; i += stride) out[run.to + i] = from[i];
  }
}

__device__ inline void run_step(const Move& step, const RowAt& row, float*) {
  switch (step.element_bytes) {
    case 1: return move_elements<uint8_t>(step, row);
    case 2: return move_elements<uint16_t>(step, row);
    case 4: return move_elements<uint32_t>(step, row);
    default: return move_elements<uint64_t>(step, row);
  }
}

__device__ __forceinline__ void copy_bytes(std::byte* to, const std::byte* from, int64_t n_bytes) {
  if (n_bytes % 4 != 0) {
    for (int64_t i = threadIdx.x; i < n_bytes; i += kRowThreads) to[i] = from[i];
    return;
  }
  for (int64_t i = threadIdx.x; i < n_bytes / 4; i += kRowThreads)
    reinterpret_cast<uint32_t*>(to)[i] = reinterpret_cast<const uint32_t*>(from)[i];
}

__device__ inline void run_step(const Register& step, const RowAt& row, float*) {
  const Address kept = pointer<Address>(step.table.registers)[static_cast<int64_t>(row.row->slot) * step.table.n_registers + step.index];
  std::byte *in_register = pointer<std::byte>(kept), *value = row_of<std::byte>(step.value, row);
  copy_bytes(step.write ? in_register : value, step.write ? value : in_register, step.n_bytes);
}

__device__ inline void run_step(const GatherRows& step, const RowAt& row, float*) {
  const int64_t chosen = pointer<int32_t>(step.chosen)[row.index];
  copy_bytes(pointer<std::byte>(step.to.base, row.index * step.to.stride), pointer<std::byte>(step.from.base, chosen * step.from.stride),
             step.n_bytes);
}

}  // namespace kvik::cuda
