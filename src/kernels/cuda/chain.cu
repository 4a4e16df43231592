#include "kernels/cuda/common.cuh"

// Row steps of the most common kind, in a row: each thread keeps its elements of the row in registers from the first step to the last. A
// block takes a row, a thread kVectors times four neighboring elements. Each result is written, and has the bits it has alone.
namespace kvik::cuda {
namespace {

constexpr int kMostWarps = kChainMostThreads / 32;

template <int kVectors>
struct Elements {
  float4 at[kVectors];

  template <class Fn>
  __device__ __forceinline__ static void each(int n, Fn fn) {  // fn(vector, first element)
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const int i = 4 * (j * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x));
      if (i < n) fn(j, i);
    }
  }
  __device__ __forceinline__ void load(const View& view, int64_t row, int n) {
    const float* from = pointer<float>(view.base, row * view.stride);
    each(n, [&](int j, int i) { at[j] = *reinterpret_cast<const float4*>(from + i); });
  }
  __device__ __forceinline__ void store(const View& view, int64_t row, int n) const {
    float* to = pointer<float>(view.base, row * view.stride);
    each(n, [&](int j, int i) { *reinterpret_cast<float4*>(to + i) = at[j]; });
  }
  template <class Fn>
  __device__ __forceinline__ void join(const Elements& other, int n, Fn fn) {
    each(n, [&](int j, int) {
      float4 &a = at[j], b = other.at[j];
      a = make_float4(fn(a.x, b.x), fn(a.y, b.y), fn(a.z, b.z), fn(a.w, b.w));
    });
  }
};

template <int kVectors>
__device__ __forceinline__ void apply(const ChainJoin& step, Elements<kVectors>& x, const Elements<kVectors>& with, int n) {
  switch (step.kind) {
    case ChainJoin::Kind::kAdd: return x.join(with, n, [](float a, float b) { return a + b; });
    case ChainJoin::Kind::kMultiply: return x.join(with, n, [](float a, float b) { return a * b; });
    case ChainJoin::Kind::kGate:
      if (step.unary == Unary::kSilu) return x.join(with, n, [](float a, float b) { return a / (1.0f + exp_of(-a)) * b; });
      return x.join(with, n, [&](float a, float b) { return unary_of(step.unary, a) * b; });
    case ChainJoin::Kind::kUnary: return x.join(x, n, [&](float a, float) { return unary_of(step.unary, a); });
    default: return;
  }
}

// Strands of the row (order.h), and their tree. All threads get the sum. `row` has n floats, `strands` kStrands.
template <class Fn>
__device__ __forceinline__ float sum_strands(const float* row, int n, float* strands, Fn fn) {
  for (int s = threadIdx.x; s < kStrands; s += blockDim.x) {
    float strand = 0.0f;
#pragma unroll 4
    for (int i = s; i < n; i += kStrands) strand = fn(strand, row[i]);
    strands[s] = strand;
  }
  __syncthreads();
  const int lane = threadIdx.x % 32;
  float sums[kStrands / 32];
#pragma unroll
  for (int j = 0; j < kStrands / 32; ++j) sums[j] = strands[lane + 32 * j];
#pragma unroll
  for (int half = kStrands / 64; half > 0; half /= 2)
#pragma unroll
    for (int j = 0; j < half; ++j) sums[j] = sums[j] + sums[j + half];
  float x = sums[0];
#pragma unroll
  for (int half = 16; half > 0; half /= 2) x = x + __shfl_down_sync(~0u, x, half);
  return __shfl_sync(~0u, x, 0);
}

// Weights of a norm, read before the row is there if registers have room for them.
template <int kVectors>
struct Constants {
  static constexpr int kKept = kVectors <= 4 ? kVectors : 1;
  Elements<kKept> kept;
  const float* from = nullptr;

  __device__ __forceinline__ void load(const View& view, int n) {
    if (view.base == Address::kNone) return;
    from = pointer<float>(view.base);
    if constexpr (kKept == kVectors) kept.load(view, 0, n);
  }
  __device__ __forceinline__ float4 get(int j, int i) const {
    if constexpr (kKept == kVectors) return kept.at[j];
    return from != nullptr ? *reinterpret_cast<const float4*>(from + i) : float4{};
  }
};

template <int kVectors>
__device__ __forceinline__ void normalize(const ChainLaunch& launch, Elements<kVectors>& x, const Constants<kVectors>& weight,
                                          const Constants<kVectors>& bias, float* row, float* strands) {
  const int n = launch.n;
  const auto size = static_cast<float>(n);
  x.each(n, [&](int j, int i) { *reinterpret_cast<float4*>(row + i) = x.at[j]; });
  __syncthreads();
  float mean = 0.0f;
  if (launch.norm.centered) {
    mean = sum_strands(row, n, strands, [](float sum, float v) { return sum + v; }) / size;
    __syncthreads();  // the strands are used again
  }
  const float squares = sum_strands(row, n, strands, [&](float sum, float v) { return fused(v - mean, v - mean, sum); });
  const float inverse = 1.0f / root_of(squares / size + launch.norm.epsilon);
  const bool weighs = weight.from != nullptr, shifts = bias.from != nullptr;
  x.each(n, [&](int j, int i) {
    const auto one = [&](float v, float w, float b) {
      const float y = (v - mean) * inverse;
      return shifts ? fused(y, weighs ? w : 1.0f, b) : weighs ? y * w : y;
    };
    const float4 v = x.at[j], w = weight.get(j, i), b = bias.get(j, i);
    x.at[j] = make_float4(one(v.x, w.x, b.x), one(v.y, w.y, b.y), one(v.z, w.z, b.z), one(v.w, w.w, b.w));
  });
}

// The row as f16, with a power of two.
template <int kVectors>
__device__ __forceinline__ void to_half(const ChainLaunch& launch, int64_t row, const Elements<kVectors>& x, uint32_t* warps) {
  const ChainHalf& half = launch.half;
  uint32_t largest = 0;
  const auto size_of = [](float v) { return bits_of(v) & 0x7fffffffu; };
  x.each(launch.n, [&](int j, int) {
    const float4 v = x.at[j];
    largest = max(max(max(largest, size_of(v.x)), max(size_of(v.y), size_of(v.z))), size_of(v.w));
  });
  largest = __reduce_max_sync(~0u, largest);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = largest;
  __syncthreads();
  const int n_warps = blockDim.x / 32;
  largest = __reduce_max_sync(~0u, static_cast<int>(threadIdx.x % 32) < n_warps ? warps[threadIdx.x % 32] : 0u);
  const int32_t exponent = half_exponent(largest);
  const float factor = power_of_two(exponent);
  if (threadIdx.x == 0) *pointer<float>(half.scale.base, row * half.scale.stride) = power_of_two(-exponent);
  auto* out = pointer<uint16_t>(half.out.base, row * half.out.stride);
  x.each(launch.n, [&](int j, int i) {
    const float v[4] = {x.at[j].x * factor, x.at[j].y * factor, x.at[j].z * factor, x.at[j].w * factor};
    uint16_t high[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) high[c] = half_bits(v[c]);
    *reinterpret_cast<uint2*>(out + i) = make_uint2(high[0] | high[1] << 16, high[2] | high[3] << 16);
    if (half.planes == 1) return;
    uint16_t low[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) low[c] = half_bits((v[c] - half_value(high[c])) * kPlaneStep);
    *reinterpret_cast<uint2*>(out + half.padded_n + i) = make_uint2(low[0] | low[1] << 16, low[2] | low[3] << 16);
  });
  for (int i = launch.n + 4 * threadIdx.x; i < half.padded_n; i += 4 * blockDim.x)
    for (int plane = 0; plane < half.planes; ++plane) *reinterpret_cast<uint2*>(out + plane * half.padded_n + i) = make_uint2(0, 0);
}

template <int kVectors>
__device__ __forceinline__ void run_chain(const ChainLaunch& launch) {
  extern __shared__ __align__(16) float floats[];  // a row and strands, if there is a norm
  __shared__ uint32_t warps[kMostWarps];
  start_next();
  const int n = launch.n;
  const int64_t row = blockIdx.x;
  Elements<kVectors> x, with;
  Constants<kVectors> weight, bias;
  if (launch.norm.there) {
    weight.load(launch.norm.weight, n);
    bias.load(launch.norm.bias, n);
  }
  wait_for_previous();
  const int n_rows = row_count(launch.rows);
  x.load(launch.x, row, n);  // there is memory for `most` rows
#pragma unroll
  for (int i = 0; i < kChainJoins; ++i) {
    const ChainJoin& step = launch.joins[i];
    if (step.kind == ChainJoin::Kind::kNone) continue;
    if (step.kind != ChainJoin::Kind::kUnary) with.load(step.with, row, n);
    if (i == 0 && row >= n_rows) return;
    apply(step, x, with, n);
    x.store(step.out, row, n);
  }
  if (row >= n_rows) return;
  if (launch.norm.there) {
    normalize(launch, x, weight, bias, floats, floats + n);
    x.store(launch.norm.out, row, n);
  }
  if (launch.half.there) to_half(launch, row, x, warps);
}

}  // namespace
}  // namespace kvik::cuda

#define KVIK_CHAIN(vectors)                                                     \
  extern "C" __global__ void __launch_bounds__(kvik::cuda::kChainMostThreads)   \
      chain_##vectors(const __grid_constant__ kvik::cuda::ChainLaunch launch) { \
    kvik::cuda::run_chain<vectors>(launch);                                     \
  }
KVIK_CHAIN(1)
KVIK_CHAIN(2)
KVIK_CHAIN(4)
KVIK_CHAIN(8)
