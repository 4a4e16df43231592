#pragma once

#include "kernels/cpu/body/declarations.h"
#include "kernels/cpu/body/math.h"
#include "kernels/cpu/body/quantize.h"
#include "kernels/cpu/ops.h"

// Sums over a row: 16 virtual lanes, lane i adding values i, i + 16, ... in order (zeros beyond the end), then one tree. The same on
// every instruction set.
namespace kvik::cpu::KVIK_ISA {

// The values of a row, 16 at a time: body(i, n) for whole vectors with n = 16, then once for the rest.
template <class Body>
KVIK_INLINE void for_vectors(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, static_cast<int>(n - i));
}

KVIK_INLINE F load_some(const float* p, int n) { return n == kLanes ? load(p) : load_n(p, n); }
KVIK_INLINE void store_some(float* p, F x, int n) {
  if (n == kLanes)
    store(p, x);
  else
    store_n(p, x, n);
}
// As load_some, with another filling than zero.
KVIK_INLINE F load_padded(const float* p, int n, float padding) {
  if (n == kLanes) return load(p);
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = i < n ? p[i] : padding;
  return load(lanes);
}

KVIK_INLINE float row_sum(const float* x, int64_t n) {
  F sum = zero();
  for_vectors(n, [&](int64_t i, int m) { sum = add(sum, load_some(x + i, m)); });
  return reduce_add(sum);
}

KVIK_INLINE float row_sum_squares(const float* x, int64_t n) {
  F sum = zero();
  for_vectors(n, [&](int64_t i, int m) {
    const F v = load_some(x + i, m);
    sum = fma(v, v, sum);
  });
  return reduce_add(sum);
}

KVIK_INLINE float row_max(const float* x, int64_t n) {
  F most = bcast(-kInfinity);
  for_vectors(n, [&](int64_t i, int m) { most = max(load_padded(x + i, m, -kInfinity), most); });
  return reduce_max(most);
}

KVIK_INLINE float row_min(const float* x, int64_t n) {
  F least = bcast(kInfinity);
  for_vectors(n, [&](int64_t i, int m) { least = min(load_padded(x + i, m, kInfinity), least); });
  return reduce_min(least);
}

KVIK_INLINE float row_product(const float* x, int64_t n) {
  alignas(64) float lanes[kLanes];
  F product = bcast(1.0f);
  for_vectors(n, [&](int64_t i, int m) { product = mul(product, load_padded(x + i, m, 1.0f)); });
  store(lanes, product);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] *= lanes[i + half];
  return lanes[0];
}

KVIK_INLINE float row_sum_abs(const float* x, int64_t n) {
  F sum = zero();
  for_vectors(n, [&](int64_t i, int m) { sum = add(sum, absolute(load_some(x + i, m))); });
  return reduce_add(sum);
}

float reduce(Reduce op, const float* x, int64_t n) {
  switch (op) {
    case Reduce::kSum: return row_sum(x, n);
    case Reduce::kMean: return row_sum(x, n) / static_cast<float>(n);
    case Reduce::kMax: return row_max(x, n);
    case Reduce::kMin: return row_min(x, n);
    case Reduce::kProd: return row_product(x, n);
    case Reduce::kSumSquare: return row_sum_squares(x, n);
    case Reduce::kSumAbs: return row_sum_abs(x, n);
    case Reduce::kL2: return __builtin_sqrtf(row_sum_squares(x, n));
  }
  return 0.0f;
}

// The first index of the largest value; NaN never counts as largest.
int64_t argmax(const float* x, int64_t n) {
  const float most = row_max(x, n);
  for (int64_t i = 0; i < n; ++i)
    if (x[i] == most) return i;
  return 0;
}

// y = (x - mean) * inverse (* weight) (+ bias)
KVIK_INLINE void scale_row(const float* x, float* y, int64_t n, float mean, float inverse, const NormArgs& args) {
  const F m = bcast(mean), r = bcast(inverse);
  for_vectors(n, [&](int64_t i, int k) {
    const F v = mul(sub(load_some(x + i, k), m), r);
    const F w = args.weight != nullptr ? load_some(args.weight + i, k) : bcast(1.0f);
    store_some(y + i, args.bias != nullptr ? fma(v, w, load_some(args.bias + i, k)) : mul(v, w), k);
  });
}

void rms_norm(const float* x, float* y, int64_t n, const NormArgs& args) {
  const float mean_square = row_sum_squares(x, n) / static_cast<float>(n);
  scale_row(x, y, n, 0.0f, 1.0f / __builtin_sqrtf(mean_square + args.epsilon), args);
}

void layer_norm(const float* x, float* y, int64_t n, const NormArgs& args) {
  const float mean = row_sum(x, n) / static_cast<float>(n);
  const F m = bcast(mean);
  F sum = zero();
  for_vectors(n, [&](int64_t i, int k) {
    const F d = sub(load_padded(x + i, k, mean), m);
    sum = fma(d, d, sum);
  });
  const float variance = reduce_add(sum) / static_cast<float>(n);
  scale_row(x, y, n, mean, 1.0f / __builtin_sqrtf(variance + args.epsilon), args);
}

// exp(x - max) into y; returns their sum. A row of -inf throughout gives NaN, as in ONNX.
KVIK_INLINE float exp_row(const float* x, float* y, int64_t n, float most) {
  const F m = bcast(most);
  F sum = zero();
  for_vectors(n, [&](int64_t i, int k) {
    const F e = exp(sub(load_padded(x + i, k, -kInfinity), m));
    sum = add(sum, e);
    store_some(y + i, e, k);
  });
  return reduce_add(sum);
}

void softmax(const float* x, float* y, int64_t n) {
  const F total = bcast(exp_row(x, y, n, row_max(x, n)));
  for_vectors(n, [&](int64_t i, int k) { store_some(y + i, div(load_some(y + i, k), total), k); });
}

void log_softmax(const float* x, float* y, int64_t n) {
  const float most = row_max(x, n);
  const F m = bcast(most);
  F sum = zero();
  for_vectors(n, [&](int64_t i, int k) { sum = add(sum, exp(sub(load_padded(x + i, k, -kInfinity), m))); });
  const F log_total = log(bcast(reduce_add(sum)));
  for_vectors(n, [&](int64_t i, int k) { store_some(y + i, sub(sub(load_some(x + i, k), m), log_total), k); });
}

// One head: (a, b) becomes (a cos - b sin, b cos + a sin).
KVIK_INLINE void rotate_halves(float* x, const RotaryArgs& args) {
  float* other = x + args.n_pairs;
  for_vectors(args.n_pairs, [&](int64_t i, int k) {
    const F a = load_some(x + i, k), b = load_some(other + i, k), c = load_some(args.cos + i, k), s = load_some(args.sin + i, k);
    store_some(x + i, fma(negate(b), s, mul(a, c)), k);
    store_some(other + i, fma(a, s, mul(b, c)), k);
  });
}

KVIK_INLINE void rotate_neighbors(float* x, const RotaryArgs& args) {
  for (int64_t i = 0; i < args.n_pairs; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1], c = args.cos[i], s = args.sin[i];
    x[2 * i] = fma1(-b, s, a * c);
    x[2 * i + 1] = fma1(a, s, b * c);
  }
}

void rotary(float* x, const RotaryArgs& args) {
  for (int64_t h = 0; h < args.n_heads; ++h) {
    if (args.interleaved)
      rotate_neighbors(x + h * args.head_dim, args);
    else
      rotate_halves(x + h * args.head_dim, args);
  }
}

}  // namespace kvik::cpu::KVIK_ISA
