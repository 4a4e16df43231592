#pragma once

#include <arm_neon.h>

#include "kernels/cpu/body/common.h"

// NEON as every 64-bit ARM processor has it: the virtual vector is four registers.
#define KVIK_ISA neon

namespace kvik::cpu::neon {

constexpr int kFloatRows = 4, kFloatVectors = 1, kBlockRows = 2, kSmallBlockRows = 2, kBlockPanels = 1, kScoreHeads = 4, kScoreSums = 4,
              kValueHeads = 4, kValueSums = 4;
constexpr int kPrefetchBytes = 0;  // the processor prefetches weights well by itself

struct F {
  float32x4_t v[4];
};
struct I {
  int32x4_t v[4];
};
struct Mask {
  uint32x4_t v[4];
};

#define KVIK_QUARTERS(Type, expression)            \
  Type o;                                          \
  for (int i = 0; i < 4; ++i) o.v[i] = expression; \
  return o

KVIK_INLINE F zero() { KVIK_QUARTERS(F, vdupq_n_f32(0.0f)); }
KVIK_INLINE F bcast(float x) { KVIK_QUARTERS(F, vdupq_n_f32(x)); }
KVIK_INLINE F load(const float* p) { KVIK_QUARTERS(F, vld1q_f32(p + 4 * i)); }
KVIK_INLINE uint16x4_t load4_u16(const void* p) { return vld1_u16(static_cast<const uint16_t*>(p)); }
KVIK_INLINE F load(const Half* p) { KVIK_QUARTERS(F, vcvt_f32_f16(vreinterpret_f16_u16(load4_u16(p + 4 * i)))); }
KVIK_INLINE F load(const BFloat16* p) { KVIK_QUARTERS(F, vreinterpretq_f32_u32(vshll_n_u16(load4_u16(p + 4 * i), 16))); }
KVIK_INLINE F load(const int8_t* p) {
  const int8x16_t x = vld1q_s8(p);
  const int16x8_t low = vmovl_s8(vget_low_s8(x)), high = vmovl_s8(vget_high_s8(x));
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}
KVIK_INLINE F load_n(const float* p, int n) {
  float t[kLanes] = {};
  memcpy(t, p, static_cast<size_t>(n) * sizeof(float));
  return load(t);
}
KVIK_INLINE void store(float* p, F x) {
  for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, x.v[i]);
}
KVIK_INLINE void store(Half* p, F x) {
  for (int i = 0; i < 4; ++i) vst1_u16(reinterpret_cast<uint16_t*>(p) + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(x.v[i])));
}
KVIK_INLINE void store_n(float* p, F x, int n) {
  float t[kLanes];
  store(t, x);
  memcpy(p, t, static_cast<size_t>(n) * sizeof(float));
}

KVIK_INLINE F fma(F a, F b, F c) { KVIK_QUARTERS(F, vfmaq_f32(c.v[i], a.v[i], b.v[i])); }
KVIK_INLINE float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
KVIK_INLINE F add(F a, F b) { KVIK_QUARTERS(F, vaddq_f32(a.v[i], b.v[i])); }
KVIK_INLINE F sub(F a, F b) { KVIK_QUARTERS(F, vsubq_f32(a.v[i], b.v[i])); }
KVIK_INLINE F mul(F a, F b) { KVIK_QUARTERS(F, vmulq_f32(a.v[i], b.v[i])); }
KVIK_INLINE F div(F a, F b) { KVIK_QUARTERS(F, vdivq_f32(a.v[i], b.v[i])); }
KVIK_INLINE F sqrt(F a) { KVIK_QUARTERS(F, vsqrtq_f32(a.v[i])); }
// The second operand where either is NaN, as on x86; vmaxq would give NaN.
KVIK_INLINE F max(F a, F b) { KVIK_QUARTERS(F, vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i])); }
KVIK_INLINE F min(F a, F b) { KVIK_QUARTERS(F, vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i])); }
KVIK_INLINE F round_even(F a) { KVIK_QUARTERS(F, vrndnq_f32(a.v[i])); }
KVIK_INLINE F floor(F a) { KVIK_QUARTERS(F, vrndmq_f32(a.v[i])); }
KVIK_INLINE F ceil(F a) { KVIK_QUARTERS(F, vrndpq_f32(a.v[i])); }

KVIK_INLINE Mask less(F a, F b) { KVIK_QUARTERS(Mask, vcltq_f32(a.v[i], b.v[i])); }
KVIK_INLINE Mask less_equal(F a, F b) { KVIK_QUARTERS(Mask, vcleq_f32(a.v[i], b.v[i])); }
KVIK_INLINE Mask equal(F a, F b) { KVIK_QUARTERS(Mask, vceqq_f32(a.v[i], b.v[i])); }
KVIK_INLINE F select(Mask m, F yes, F no) { KVIK_QUARTERS(F, vbslq_f32(m.v[i], yes.v[i], no.v[i])); }
KVIK_INLINE bool all(Mask m) { return vminvq_u32(vandq_u32(vandq_u32(m.v[0], m.v[1]), vandq_u32(m.v[2], m.v[3]))) != 0; }

KVIK_INLINE I ibcast(int32_t x) { KVIK_QUARTERS(I, vdupq_n_s32(x)); }
KVIK_INLINE I iload(const void* p) { KVIK_QUARTERS(I, vld1q_s32(static_cast<const int32_t*>(p) + 4 * i)); }
KVIK_INLINE I iload_u8(const uint8_t* p) {
  const uint8x16_t x = vld1q_u8(p);
  const uint16x8_t low = vmovl_u8(vget_low_u8(x)), high = vmovl_u8(vget_high_u8(x));
  return {{vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))), vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(low))),
           vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))), vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(high)))}};
}
KVIK_INLINE I iadd(I a, I b) { KVIK_QUARTERS(I, vaddq_s32(a.v[i], b.v[i])); }
KVIK_INLINE I isub(I a, I b) { KVIK_QUARTERS(I, vsubq_s32(a.v[i], b.v[i])); }
KVIK_INLINE I imul(I a, I b) { KVIK_QUARTERS(I, vmulq_s32(a.v[i], b.v[i])); }
KVIK_INLINE I iand(I a, I b) { KVIK_QUARTERS(I, vandq_s32(a.v[i], b.v[i])); }
KVIK_INLINE I ixor(I a, I b) { KVIK_QUARTERS(I, veorq_s32(a.v[i], b.v[i])); }
template <int n>
KVIK_INLINE I shift_left(I a) {
  KVIK_QUARTERS(I, vshlq_n_s32(a.v[i], n));
}
template <int n>
KVIK_INLINE I shift_right(I a) {
  if constexpr (n == 0) return a;  // there is no shift by nothing
  KVIK_QUARTERS(I, vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a.v[i]), n == 0 ? 1 : n)));
}
template <int n>
KVIK_INLINE I shift_right_signed(I a) {
  KVIK_QUARTERS(I, vshrq_n_s32(a.v[i], n));
}
KVIK_INLINE I bits(F a) { KVIK_QUARTERS(I, vreinterpretq_s32_f32(a.v[i])); }
KVIK_INLINE F from_bits(I a) { KVIK_QUARTERS(F, vreinterpretq_f32_s32(a.v[i])); }
KVIK_INLINE F to_float(I a) { KVIK_QUARTERS(F, vcvtq_f32_s32(a.v[i])); }
KVIK_INLINE I to_int(F a) { KVIK_QUARTERS(I, vcvtnq_s32_f32(a.v[i])); }
KVIK_INLINE void store_i8(int8_t* p, I a) {
  const int16x8_t low = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1])), high = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
  vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}

// Lanes i and i + 8, then + 4, + 2, + 1.
KVIK_INLINE float reduce_add(F a) {
  const float32x4_t x = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float32x2_t y = vadd_f32(vget_low_f32(x), vget_high_f32(x));
  return vget_lane_f32(y, 0) + vget_lane_f32(y, 1);
}
KVIK_INLINE float reduce_max(F a) {
  float t[kLanes];
  store(t, a);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
  return t[0];
}
KVIK_INLINE float reduce_min(F a) {
  float t[kLanes];
  store(t, a);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) t[i] = t[i] < t[i + half] ? t[i] : t[i + half];
  return t[0];
}
KVIK_INLINE int32_t reduce_add(I a) { return vaddvq_s32(vaddq_s32(vaddq_s32(a.v[0], a.v[1]), vaddq_s32(a.v[2], a.v[3]))); }

// Dot products of bytes: products in 16 bits, then added in pairs twice, which is exact for all bytes.
struct W8 {
  int8x16_t v[4];
};
using A8 = int8x16_t;
struct W4 {
  int8x16_t low[4], high[4];
};
using Acc4 = I;

KVIK_INLINE W8 load_w8(const uint8_t* p) { KVIK_QUARTERS(W8, vld1q_s8(reinterpret_cast<const int8_t*>(p) + 16 * i)); }
KVIK_INLINE A8 bcast_a8(const int8_t* p) {
  int32_t four;
  memcpy(&four, p, sizeof four);
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
KVIK_INLINE int32x4_t dot4(int8x16_t w, int8x16_t a) {
  return vpaddq_s32(vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(a))), vpaddlq_s16(vmull_high_s8(w, a)));
}
KVIK_INLINE I start_w8(int32_t) { return ibcast(0); }
KVIK_INLINE I start_w8(int32_t sum, I zero_points) { KVIK_QUARTERS(I, vmulq_n_s32(vsubq_s32(vdupq_n_s32(128), zero_points.v[i]), sum)); }
KVIK_INLINE I dot_w8(I c, const W8& w, A8 a) { KVIK_QUARTERS(I, vaddq_s32(c.v[i], dot4(w.v[i], a))); }
KVIK_INLINE I dot_w8_full(I c, const W8& w, A8 a) { return dot_w8(c, w, a); }
KVIK_INLINE W4 load_w4(const uint8_t* p) {
  W4 w;
  for (int i = 0; i < 4; ++i) {
    const uint8x16_t x = vld1q_u8(p + 16 * i);
    w.low[i] = vreinterpretq_s8_u8(vandq_u8(x, vdupq_n_u8(15)));
    w.high[i] = vreinterpretq_s8_u8(vshrq_n_u8(x, 4));
  }
  return w;
}
KVIK_INLINE Acc4 start_w4(int32_t sum) { return ibcast(-8 * sum); }
KVIK_INLINE Acc4 start_w4(int32_t sum, I zero_points) { KVIK_QUARTERS(I, vmulq_n_s32(zero_points.v[i], -sum)); }
KVIK_INLINE Acc4 dot_w4(Acc4 c, const W4& w, A8 low, A8 high) {
  KVIK_QUARTERS(I, vaddq_s32(c.v[i], vaddq_s32(dot4(w.low[i], low), dot4(w.high[i], high))));
}
KVIK_INLINE I sum_w4(Acc4 c) { return c; }
KVIK_INLINE Acc4 widen_w4(Acc4 c) { return c; }
KVIK_INLINE I dot_w6(I c, const I& w_low, A8 low, const I& w_high, A8 high) {  // bytes 0..63
  KVIK_QUARTERS(I,
                vaddq_s32(c.v[i], vaddq_s32(dot4(vreinterpretq_s8_s32(w_low.v[i]), low), dot4(vreinterpretq_s8_s32(w_high.v[i]), high))));
}
KVIK_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }
KVIK_INLINE void prefetch_second_level(const void* p) { __builtin_prefetch(p, 0, 2); }

#undef KVIK_QUARTERS

}  // namespace kvik::cpu::neon
