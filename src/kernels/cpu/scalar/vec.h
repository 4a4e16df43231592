#pragma once

#include <cmath>

// The virtual vector in plain C++: slow, right, and the judge of the others.
#define KVIK_ISA scalar
#define KVIK_PLAIN

#include "kernels/cpu/body/common.h"

namespace kvik::cpu::scalar {

// Register tiles: rows x vectors (float weights), rows x panels (quantized; in small blocks, fewer rows), heads x vectors (attention).
constexpr int kFloatRows = 2, kFloatVectors = 1, kBlockRows = 2, kSmallBlockRows = 2, kBlockPanels = 1, kScoreHeads = 2, kScoreSums = 2,
              kValueHeads = 2, kValueSums = 2;
constexpr int kPrefetchBytes = 0;  // the processor prefetches weights well by itself

struct F {
  float v[kLanes];
};
struct I {
  int32_t v[kLanes];
};
struct Mask {
  bool v[kLanes];
};

#define KVIK_LANES(Type, expression)                        \
  Type o;                                                   \
  for (int64_t i = 0; i < kLanes; ++i) o.v[i] = expression; \
  return o

KVIK_INLINE float float_from(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
KVIK_INLINE uint32_t bits_from(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}
KVIK_INLINE float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 1023u;
  if (exponent == 0) return float_from(bits_from(static_cast<float>(mantissa) * 0x1p-24f) | sign);
  if (exponent == 31) return float_from(sign | 0x7f800000u | (mantissa != 0 ? 0x400000u : 0u) | (mantissa << 13));
  return float_from(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}
KVIK_INLINE uint16_t float_to_half(float f) {
  const uint32_t bits = bits_from(f), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) return static_cast<uint16_t>(sign | (bits_from(float_from(magnitude) + 0.5f) - 0x3f000000u));
  return static_cast<uint16_t>(sign | ((magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13));
}

KVIK_INLINE F zero() { KVIK_LANES(F, 0.0f); }
KVIK_INLINE F bcast(float x) { KVIK_LANES(F, x); }
KVIK_INLINE F load(const float* p) { KVIK_LANES(F, p[i]); }
KVIK_INLINE F load(const Half* p) { KVIK_LANES(F, half_to_float(p[i].bits)); }
KVIK_INLINE F load(const BFloat16* p) { KVIK_LANES(F, float_from(static_cast<uint32_t>(p[i].bits) << 16)); }
KVIK_INLINE F load(const int8_t* p) { KVIK_LANES(F, static_cast<float>(p[i])); }
KVIK_INLINE F load_n(const float* p, int n) { KVIK_LANES(F, i < n ? p[i] : 0.0f); }
KVIK_INLINE void store(float* p, F x) { memcpy(p, x.v, sizeof x.v); }
KVIK_INLINE void store(Half* p, F x) {
  for (int i = 0; i < kLanes; ++i) p[i].bits = float_to_half(x.v[i]);
}
KVIK_INLINE void store_n(float* p, F x, int n) { memcpy(p, x.v, static_cast<size_t>(n) * sizeof(float)); }

KVIK_INLINE F fma(F a, F b, F c) { KVIK_LANES(F, std::fma(a.v[i], b.v[i], c.v[i])); }
KVIK_INLINE float fma1(float a, float b, float c) { return std::fma(a, b, c); }
KVIK_INLINE F add(F a, F b) { KVIK_LANES(F, a.v[i] + b.v[i]); }
KVIK_INLINE F sub(F a, F b) { KVIK_LANES(F, a.v[i] - b.v[i]); }
KVIK_INLINE F mul(F a, F b) { KVIK_LANES(F, a.v[i] * b.v[i]); }
KVIK_INLINE F div(F a, F b) { KVIK_LANES(F, a.v[i] / b.v[i]); }
KVIK_INLINE F sqrt(F a) { KVIK_LANES(F, std::sqrt(a.v[i])); }
KVIK_INLINE F max(F a, F b) { KVIK_LANES(F, a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
KVIK_INLINE F min(F a, F b) { KVIK_LANES(F, a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
KVIK_INLINE F round_even(F a) { KVIK_LANES(F, std::nearbyint(a.v[i])); }
KVIK_INLINE F floor(F a) { KVIK_LANES(F, std::floor(a.v[i])); }
KVIK_INLINE F ceil(F a) { KVIK_LANES(F, std::ceil(a.v[i])); }

KVIK_INLINE Mask less(F a, F b) { KVIK_LANES(Mask, a.v[i] < b.v[i]); }
KVIK_INLINE Mask less_equal(F a, F b) { KVIK_LANES(Mask, a.v[i] <= b.v[i]); }
KVIK_INLINE Mask equal(F a, F b) { KVIK_LANES(Mask, a.v[i] == b.v[i]); }
KVIK_INLINE F select(Mask m, F yes, F no) { KVIK_LANES(F, m.v[i] ? yes.v[i] : no.v[i]); }
KVIK_INLINE bool all(Mask m) {
  bool every = true;
  for (bool lane : m.v) every = every && lane;
  return every;
}

KVIK_INLINE I ibcast(int32_t x) { KVIK_LANES(I, x); }
KVIK_INLINE I iload(const void* p) {
  I o;
  memcpy(o.v, p, sizeof o.v);
  return o;
}
KVIK_INLINE I iload_u8(const uint8_t* p) { KVIK_LANES(I, p[i]); }
KVIK_INLINE I iadd(I a, I b) { KVIK_LANES(I, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + static_cast<uint32_t>(b.v[i]))); }
KVIK_INLINE I isub(I a, I b) { KVIK_LANES(I, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) - static_cast<uint32_t>(b.v[i]))); }
KVIK_INLINE I imul(I a, I b) { KVIK_LANES(I, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) * static_cast<uint32_t>(b.v[i]))); }
KVIK_INLINE I iand(I a, I b) { KVIK_LANES(I, a.v[i] & b.v[i]); }
KVIK_INLINE I ixor(I a, I b) { KVIK_LANES(I, a.v[i] ^ b.v[i]); }
template <int n>
KVIK_INLINE I shift_left(I a) {
  KVIK_LANES(I, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << n));
}
template <int n>
KVIK_INLINE I shift_right(I a) {  // brings in zeros
  KVIK_LANES(I, static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) >> n));
}
template <int n>
KVIK_INLINE I shift_right_signed(I a) {
  KVIK_LANES(I, a.v[i] >> n);
}
KVIK_INLINE I bits(F a) {
  I o;
  memcpy(o.v, a.v, sizeof o.v);
  return o;
}
KVIK_INLINE F from_bits(I a) {
  F o;
  memcpy(o.v, a.v, sizeof o.v);
  return o;
}
KVIK_INLINE F to_float(I a) { KVIK_LANES(F, static_cast<float>(a.v[i])); }
KVIK_INLINE I to_int(F a) { KVIK_LANES(I, static_cast<int32_t>(std::nearbyint(a.v[i]))); }
KVIK_INLINE void store_i8(int8_t* p, I a) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}

KVIK_INLINE float reduce_add(F a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
  return a.v[0];
}
KVIK_INLINE float reduce_max(F a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  return a.v[0];
}
KVIK_INLINE float reduce_min(F a) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] < a.v[i + half] ? a.v[i] : a.v[i + half];
  return a.v[0];
}
KVIK_INLINE int32_t reduce_add(I a) {
  int32_t sum = 0;
  for (int32_t lane : a.v) sum += lane;
  return sum;
}

// Dot products of bytes, four to a lane; see body/matmul_blocks.h.
struct W8 {
  int8_t v[64];
};
struct A8 {
  int8_t v[4];
};
struct W4 {
  uint8_t low[64], high[64];
};
using Acc4 = I;

KVIK_INLINE W8 load_w8(const uint8_t* p) {
  W8 w;
  memcpy(w.v, p, sizeof w.v);
  return w;
}
KVIK_INLINE A8 bcast_a8(const int8_t* p) {
  A8 a;
  memcpy(a.v, p, sizeof a.v);
  return a;
}
KVIK_INLINE I start_w8(int32_t) { return ibcast(0); }
KVIK_INLINE I start_w8(int32_t sum, I zero_points) { KVIK_LANES(I, (128 - zero_points.v[i]) * sum); }
KVIK_INLINE I dot_w8(I c, const W8& w, A8 a) {
  KVIK_LANES(I, c.v[i] + w.v[4 * i] * a.v[0] + w.v[4 * i + 1] * a.v[1] + w.v[4 * i + 2] * a.v[2] + w.v[4 * i + 3] * a.v[3]);
}
KVIK_INLINE I dot_w8_full(I c, const W8& w, A8 a) { return dot_w8(c, w, a); }
KVIK_INLINE W4 load_w4(const uint8_t* p) {
  W4 w;
  for (int i = 0; i < 64; ++i) {
    w.low[i] = p[i] & 15u;
    w.high[i] = p[i] >> 4;
  }
  return w;
}
KVIK_INLINE Acc4 start_w4(int32_t sum) { return ibcast(-8 * sum); }
KVIK_INLINE Acc4 start_w4(int32_t sum, I zero_points) { KVIK_LANES(I, -zero_points.v[i] * sum); }
KVIK_INLINE Acc4 dot_w4(Acc4 c, const W4& w, A8 low, A8 high) {
  for (int i = 0; i < kLanes; ++i)
    for (int j = 0; j < 4; ++j) c.v[i] += w.low[4 * i + j] * low.v[j] + w.high[4 * i + j] * high.v[j];
  return c;
}
KVIK_INLINE I sum_w4(Acc4 c) { return c; }
KVIK_INLINE Acc4 widen_w4(Acc4 c) { return c; }
KVIK_INLINE I dot_w6(I c, const I& w_low, A8 low, const I& w_high, A8 high) {  // bytes 0..63
  for (int i = 0; i < kLanes; ++i)
    for (int j = 0; j < 4; ++j) c.v[i] += (w_low.v[i] >> 8 * j & 63) * low.v[j] + (w_high.v[i] >> 8 * j & 63) * high.v[j];
  return c;
}
KVIK_INLINE void prefetch(const void*) {}
KVIK_INLINE void prefetch_second_level(const void*) {}

#undef KVIK_LANES

}  // namespace kvik::cpu::scalar
