#pragma once

#include "kernels/cpu/rows.h"

// Rows to int8; see QuantizedRows and ByteRows. Requires the vec.h of an instruction set.
namespace kvik::cpu::KVIK_ISA {

constexpr float kLargestFloat = 3.402823466e38f;

KVIK_INLINE F magnitude(F x) { return from_bits(iand(bits(x), ibcast(0x7fffffff))); }

// Values 16 * i to 16 * i + 15 of a row of n, zeros beyond its end.
KVIK_INLINE F row_vector(const float* x, int64_t n, int64_t i) {
  const int64_t left = n - i * kLanes;
  if (left >= kLanes) return load(x + i * kLanes);
  return left > 0 ? load_n(x + i * kLanes, static_cast<int>(left)) : zero();
}

struct Quantization {
  float scale;
  F inverse;
  bool finite;
};

// Of values whose largest magnitude, lane by lane, is `most`.
KVIK_INLINE Quantization quantization_of(F most, bool finite) {
  const float amax = finite ? reduce_max(most) : 0.0f;
  const bool live = amax >= 1e-30f;  // below it 127 / amax may overflow, and instruction sets convert infinities differently
  return {finite ? (live ? amax / 127.0f : 0.0f) : __builtin_nanf(""), bcast(live ? 127.0f / amax : 0.0f), finite};
}

struct QuantizedHead {
  float scale;
  int32_t sum;
};

// n values with one scale; q has room for n rounded up to 16, the rest becomes zero.
KVIK_INLINE QuantizedHead quantize_head(const float* x, int64_t n, int8_t* q) {
  const int64_t n_vectors = (n + kLanes - 1) / kLanes;
  const F limit = bcast(kLargestFloat);
  F most = zero();
  bool finite = true;
  for (int64_t i = 0; i < n_vectors; ++i) {
    const F a = magnitude(row_vector(x, n, i));
    finite = finite && all(less_equal(a, limit));
    most = max(most, a);
  }
  const Quantization how = quantization_of(most, finite);
  int32_t sum = 0;
  for (int64_t i = 0; i < n_vectors; ++i) {
    const I v = finite ? to_int(mul(row_vector(x, n, i), how.inverse)) : ibcast(0);
    store_i8(q + i * kLanes, v);
    sum += reduce_add(v);
  }
  return {how.scale, sum};
}

struct Extent {
  float low, high;  // of the row and zero
  bool finite;
};

KVIK_INLINE Extent extent_of(const float* x, int64_t n) {
  const F limit = bcast(kLargestFloat);
  F low = zero(), high = zero();
  bool finite = true;
  for (int64_t i = 0; i * kLanes < n; ++i) {
    const F v = row_vector(x, n, i);
    finite = finite && all(less_equal(magnitude(v), limit));
    low = min(v, low);
    high = max(v, high);
  }
  return {reduce_min(low), reduce_max(high), finite};
}

}  // namespace kvik::cpu::KVIK_ISA
