#pragma once

#include "kernels/cuda/reduce.cuh"

// What a block does for one row: every function is called by all its threads. Between two of them is a barrier.
namespace kvik::cuda {

__device__ __noinline__ Written run_step(const ToHalf& step, RowMemory& memory) {
  const bool by_block = step.parts == 1;
  const int first = by_block ? threadIdx.x : threadIdx.x % 32, stride = by_block ? kRowThreads : 32;
  const float* all = staged_input(memory, step.x, static_cast<int64_t>(step.parts) * step.k);
  uint16_t* all_out = row_of<uint16_t>(step.out, memory.row);
  for (int part = by_block ? 0 : threadIdx.x / 32; part < step.parts; part += kRowThreads / 32) {
    const float* x = all + static_cast<int64_t>(part) * step.k;
    uint32_t largest = 0;
#pragma unroll 8
    for (int i = first; i < step.k; i += stride) largest = max(largest, bits_of(x[i]) & 0x7fffffffu);
    largest = __reduce_max_sync(~0u, largest);
    if (by_block) {
      auto* warps = reinterpret_cast<uint32_t*>(memory.scratch);
      if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = largest;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kRowThreads / 32; ++i) largest = max(largest, warps[i]);
    }
    const int32_t exponent = half_exponent(largest);
    const float factor = power_of_two(exponent);
    uint16_t* out = all_out + static_cast<int64_t>(part) * step.planes * step.padded_k;
    if (first == 0) row_of<float>(step.scale, memory.row)[part] = power_of_two(-exponent);
#pragma unroll 4
    for (int i = 2 * first; i < step.padded_k; i += 2 * stride) {
      const float a = i < step.k ? x[i] * factor : 0.0f, b = i + 1 < step.k ? x[i + 1] * factor : 0.0f;
      const uint16_t high_a = half_bits(a), high_b = half_bits(b);
      *reinterpret_cast<uint32_t*>(out + i) = high_a | static_cast<uint32_t>(high_b) << 16;
      if (step.planes == 2) {
        const uint16_t low_a = half_bits((a - half_value(high_a)) * kPlaneStep), low_b = half_bits((b - half_value(high_b)) * kPlaneStep);
        *reinterpret_cast<uint32_t*>(out + step.padded_k + i) = low_a | static_cast<uint32_t>(low_b) << 16;
      }
    }
  }
  const auto begin = reinterpret_cast<uint64_t>(all_out);
  return {begin, begin + static_cast<uint64_t>(step.parts) * step.planes * step.padded_k * 2};
}

__device__ __forceinline__ float operand(const float* x, Spread spread, int64_t i, int64_t group, int64_t in_group) {
  switch (spread) {
    case Spread::kAll: return x[i];
    case Spread::kEvery: return x[in_group];
    case Spread::kPerGroup: return x[group];
    default: return x[0];
  }
}

__device__ __noinline__ float applied(const Elementwise& step, float a, float b, float c) {
  switch (step.kind) {
    case Elementwise::Kind::kUnary: return unary_of(step.unary, a);
    case Elementwise::Kind::kBinary: return step.binary == Binary::kAdd ? a + b : binary_of(step.binary, a, b);
    case Elementwise::Kind::kGate: return (step.unary == Unary::kSilu ? a / (1.0f + exp_of(-a)) : unary_of(step.unary, a)) * b;
    case Elementwise::Kind::kClip: return clip_of(a, step.low, step.high);
    default: return a != 0.0f ? b : c;
  }
}

// The gate of most models, four elements at a time.
__device__ __forceinline__ bool gate_silu(const Elementwise& step, const float* a, const float* b, const Result& out) {
  const auto addresses = reinterpret_cast<uint64_t>(a) | reinterpret_cast<uint64_t>(b) | reinterpret_cast<uint64_t>(out.out);
  if (step.kind != Elementwise::Kind::kGate || step.unary != Unary::kSilu || step.n % 4 != 0 || addresses % 16 != 0) return false;
  const auto n = static_cast<int>(step.n / 4);
#pragma unroll 2
  for (int i = threadIdx.x; i < n; i += kRowThreads) {
    const float4 x = reinterpret_cast<const float4*>(a)[i], y = reinterpret_cast<const float4*>(b)[i];
    const auto gate = [](float u, float v) { return u / (1.0f + exp_of(-u)) * v; };
    const float4 z = make_float4(gate(x.x, y.x), gate(x.y, y.y), gate(x.z, y.z), gate(x.w, y.w));
    reinterpret_cast<float4*>(out.out)[i] = z;
    if (out.copy != nullptr) reinterpret_cast<float4*>(out.copy)[i] = z;
  }
  return true;
}

__device__ __noinline__ Written run_step(const Elementwise& step, RowMemory& memory) {
  constexpr int kBatch = 4;  // loads in flight
  const auto n = static_cast<int>(step.n), size = static_cast<int>(step.n / step.groups);
  const bool two = step.kind == Elementwise::Kind::kBinary || step.kind == Elementwise::Kind::kGate,
             three = step.kind == Elementwise::Kind::kWhere;
  const float *a = input<float>(memory, step.in[0]), *b = two || three ? input<float>(memory, step.in[1]) : a,
              *c = three ? input<float>(memory, step.in[2]) : a;
  Written written;
  const Result out = result(memory, step.out, step.n, written);
  if (three || step.spread[0] != Spread::kAll || (two && step.spread[1] != Spread::kAll)) {
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += kRowThreads) {
      const int group = i / size, in_group = i - group * size;
      const float x = operand(a, step.spread[0], i, group, in_group);
      const float y = two || three ? operand(b, step.spread[1], i, group, in_group) : x;
      out.put(i, applied(step, x, y, three ? operand(c, step.spread[2], i, group, in_group) : x));
    }
    return written;
  }
  if (gate_silu(step, a, b, out)) return written;
#pragma unroll 1
  for (int base = threadIdx.x; base < n; base += kBatch * kRowThreads) {
    float x[kBatch], y[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = base + k * kRowThreads;
      x[k] = i < n ? a[i] : 0.0f;
      y[k] = i < n && two ? b[i] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const float z = applied(step, x[k], y[k], 0.0f);
      if (base + k * kRowThreads < n) out.put(base + k * kRowThreads, z);
    }
  }
  return written;
}

// fn(x, size, groups, group, out) for the groups of a row, one after another; `n_out` elements are results.
template <class Step, class Fn>
__device__ __forceinline__ Written each_group(const Step& step, RowMemory& memory, int64_t n_out, Fn fn) {
  const auto size = static_cast<int>(step.n / step.groups);
  const float* all = staged_input(memory, step.x, step.n);
  Written written;
  const Result out = result(memory, step.out, n_out, written);
  const Groups groups = groups_of(step.groups, memory);
#pragma unroll 1
  for (int64_t group = groups.group; group < step.groups; group += groups.step) fn(all + group * size, size, groups, group, out);
  return written;
}

__device__ __noinline__ Written run_step(const Norm& step, RowMemory& memory) {
  const float* weight = step.weight.base != Address::kNone ? row_of<float>(step.weight, memory.row) : nullptr;
  const float* bias = step.bias.base != Address::kNone ? row_of<float>(step.bias, memory.row) : nullptr;
  return each_group(step, memory, step.n, [&](const float* x, int size, const Groups& groups, int64_t group, const Result& out) {
    const auto n = static_cast<float>(size);
    float mean = 0.0f;
    if (step.centered) mean = fold_group(Fold::kSum, x, size, 0.0f, groups.by_block, groups.scratch) / n;
    const float squares = fold_squares(x, size, mean, groups.by_block, groups.scratch);
    const float inverse = 1.0f / root_of(squares / n + step.epsilon);
#pragma unroll 2
    for (int i = groups.first; i < size; i += groups.stride) {
      const float v = (x[i] - mean) * inverse, w = weight != nullptr ? weight[i] : 1.0f;
      out.put(group * size + i, bias != nullptr ? fused(v, w, bias[i]) : v * w);
    }
  });
}

__device__ __noinline__ Written run_step(const Softmax& step, RowMemory& memory) {
  return each_group(step, memory, step.n, [&](const float* x, int size, const Groups& groups, int64_t group, const Result& out) {
    const float most = fold_group(Fold::kLargest, x, size, 0.0f, groups.by_block, groups.scratch);
    const float total = fold_group(Fold::kExponentials, x, size, most, groups.by_block, groups.scratch);
    const float log_total = log_of(total);
#pragma unroll 1
    for (int i = groups.first; i < size; i += groups.stride)
      out.put(group * size + i, step.log ? x[i] - most - log_total : exp_of(x[i] - most) / total);
  });
}

__device__ __forceinline__ Fold fold_of(Reduce op) {
  switch (op) {
    case Reduce::kMax: return Fold::kLargest;
    case Reduce::kMin: return Fold::kSmallest;
    case Reduce::kProd: return Fold::kProduct;
    case Reduce::kSumSquare:
    case Reduce::kL2: return Fold::kSquares;
    case Reduce::kSumAbs: return Fold::kMagnitudes;
    default: return Fold::kSum;
  }
}

__device__ __noinline__ Written run_step(const Reduction& step, RowMemory& memory) {
  return each_group(step, memory, step.groups, [&](const float* x, int size, const Groups& groups, int64_t group, const Result& out) {
    float y = fold_group(fold_of(step.op), x, size, 0.0f, groups.by_block, groups.scratch);
    if (step.op == Reduce::kMean) y = y / static_cast<float>(size);
    if (step.op == Reduce::kL2) y = root_of(y);
    if (groups.first == 0) out.put(group, y);
  });
}

__device__ __noinline__ Written run_step(const Rotary& step, RowMemory& memory) {
  const float *x = input<float>(memory, step.x), *cos = input<float>(memory, step.cos), *sin = input<float>(memory, step.sin);
  Written written;
  const Result out = result(memory, step.out, step.n_heads * step.head_dim, written);
  const auto rest = static_cast<int>(step.head_dim - step.n_pairs), n_pairs = static_cast<int>(step.n_pairs);  // pairs, then what is copied
  const auto n = static_cast<int>(step.n_heads) * rest;
  constexpr int kBatch = 2;  // pairs whose operands are in flight
#pragma unroll 1
  for (int start = threadIdx.x; start < n; start += kBatch * kRowThreads) {
    float a[kBatch], b[kBatch], c[kBatch], s[kBatch];
    int64_t first[kBatch], second[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = start + k * kRowThreads, head = i / rest, j = i % rest;
      if (i >= n) continue;
      const int64_t base = head * step.head_dim;
      first[k] = base + (j >= n_pairs ? n_pairs + j : step.interleaved ? 2 * j : j);
      second[k] = j >= n_pairs ? -1 : base + (step.interleaved ? 2 * j + 1 : j + n_pairs);
      a[k] = x[first[k]];
      if (second[k] >= 0) b[k] = x[second[k]], c[k] = cos[j], s[k] = sin[j];
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (start + k * kRowThreads >= n) continue;
      out.put(first[k], second[k] >= 0 ? fused(-b[k], s[k], a[k] * c[k]) : a[k]);
      if (second[k] >= 0) out.put(second[k], fused(a[k], s[k], b[k] * c[k]));
    }
  }
  return written;
}

// Of a view that has no copy in shared memory.
__device__ __forceinline__ Written row_bytes(const View& view, const RowMemory& memory, int64_t n_bytes) {
  const auto begin = reinterpret_cast<uint64_t>(row_of<std::byte>(view, memory.row));
  return {begin, begin + n_bytes};
}

template <class T>
__device__ __forceinline__ void move_elements(const Move& step, const RowMemory& memory) {
  const MoveRun* runs = pointer<MoveRun>(step.runs);
  const View* inputs = pointer<View>(step.inputs);
  T* out = row_of<T>(step.out, memory.row);
  const bool alone = step.n_runs > 4 * kRowThreads / 32;  // many runs are short ones: a thread each
  const int first = alone ? 0 : threadIdx.x % 32, stride = alone ? 1 : 32;
#pragma unroll 1
  for (int r = alone ? threadIdx.x : threadIdx.x / 32; r < step.n_runs; r += alone ? kRowThreads : kRowThreads / 32) {
    const MoveRun run = runs[r];
    const T* from = input<T>(memory, inputs[run.input]) + run.from;
#pragma unroll 1
    for (int i = first; i < run.count; i += stride) out[run.to + i] = from[i];
  }
}

__device__ __noinline__ Written run_step(const Move& step, RowMemory& memory) {
  switch (step.element_bytes) {
    case 1: move_elements<uint8_t>(step, memory); break;
    case 2: move_elements<uint16_t>(step, memory); break;
    case 4: move_elements<uint32_t>(step, memory); break;
    default: move_elements<uint64_t>(step, memory); break;
  }
  return row_bytes(step.out, memory, step.out.stride);
}

__device__ __noinline__ void copy_bytes(std::byte* to, const std::byte* from, int64_t n_bytes) {
  if (n_bytes % 4 != 0) {
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < n_bytes; i += kRowThreads) to[i] = from[i];
    return;
  }
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < n_bytes / 4; i += kRowThreads)
    reinterpret_cast<uint32_t*>(to)[i] = reinterpret_cast<const uint32_t*>(from)[i];
}

__device__ __noinline__ Written run_step(const Register& step, RowMemory& memory) {
  const int64_t slot = memory.row.row->slot;
  auto* kept = pointer<std::byte>(pointer<Address>(step.table.registers)[slot * step.table.n_registers + step.index]);
  std::byte* value = row_of<std::byte>(step.value, memory.row);
  copy_bytes(step.write ? kept : value, step.write ? value : kept, step.n_bytes);
  return row_bytes(step.value, memory, step.write ? 0 : step.n_bytes);
}

__device__ __noinline__ Written run_step(const GatherRows& step, RowMemory& memory) {
  const int64_t index = memory.row.index, chosen = pointer<int32_t>(step.chosen)[index];
  copy_bytes(pointer<std::byte>(step.to.base, index * step.to.stride), pointer<std::byte>(step.from.base, chosen * step.from.stride),
             step.n_bytes);
  return row_bytes(step.to, memory, step.n_bytes);
}

}  // namespace kvik::cuda
