#pragma once

#include <immintrin.h>

#include "kernels/cpu/body/common.h"

// AVX2 with FMA and F16C: the virtual vector is two registers.
#define KVIK_ISA avx2

namespace kvik::cpu::avx2 {

constexpr int kFloatRows = 6, kFloatVectors = 1, kBlockRows = 4, kSmallBlockRows = 4, kBlockPanels = 1, kScoreHeads = 4, kScoreSums = 4,
              kValueHeads = 4, kValueSums = 4;
// One thread of a Zen 3 reads 4-bit weights 1.29 times, 6-bit ones 1.28 times and 8-bit ones 1.15 times as fast for one row as with the
// processor's own prefetching alone; 1 to 3 KB ahead are alike.
constexpr int kPrefetchBytes = 1536;

struct F {
  __m256 a, b;
};
struct I {
  __m256i a, b;
};
struct Mask {
  __m256 a, b;
};

KVIK_INLINE __m128i load8_bytes(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
KVIK_INLINE __m128i load16_bytes(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
KVIK_INLINE __m256i load32_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

KVIK_INLINE F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
KVIK_INLINE F bcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
KVIK_INLINE F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
KVIK_INLINE F load(const Half* p) { return {_mm256_cvtph_ps(load16_bytes(p)), _mm256_cvtph_ps(load16_bytes(p + 8))}; }
KVIK_INLINE F load(const BFloat16* p) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16_bytes(p)), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16_bytes(p + 8)), 16))};
}
KVIK_INLINE F load(const int8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load8_bytes(p))), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load8_bytes(p + 8)))};
}
KVIK_INLINE F load_n(const float* p, int n) {
  alignas(32) float t[kLanes] = {};
  memcpy(t, p, static_cast<size_t>(n) * sizeof(float));
  return load(t);
}
KVIK_INLINE void store(float* p, F x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
KVIK_INLINE void store(Half* p, F x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
KVIK_INLINE void store_n(float* p, F x, int n) {
  alignas(32) float t[kLanes];
  store(t, x);
  memcpy(p, t, static_cast<size_t>(n) * sizeof(float));
}

KVIK_INLINE F fma(F x, F y, F z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
KVIK_INLINE float fma1(float a, float b, float c) { return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c))); }
KVIK_INLINE F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
KVIK_INLINE F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
KVIK_INLINE F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
KVIK_INLINE F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
KVIK_INLINE F sqrt(F x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
KVIK_INLINE F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
KVIK_INLINE F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
KVIK_INLINE F round_even(F x) {
  return {_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
KVIK_INLINE F floor(F x) { return {_mm256_floor_ps(x.a), _mm256_floor_ps(x.b)}; }
KVIK_INLINE F ceil(F x) { return {_mm256_ceil_ps(x.a), _mm256_ceil_ps(x.b)}; }

KVIK_INLINE Mask less(F x, F y) { return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)}; }
KVIK_INLINE Mask less_equal(F x, F y) { return {_mm256_cmp_ps(x.a, y.a, _CMP_LE_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LE_OQ)}; }
KVIK_INLINE Mask equal(F x, F y) { return {_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)}; }
KVIK_INLINE F select(Mask m, F yes, F no) { return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)}; }
KVIK_INLINE bool all(Mask m) { return (_mm256_movemask_ps(m.a) & _mm256_movemask_ps(m.b)) == 0xff; }

KVIK_INLINE I ibcast(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
KVIK_INLINE I iload(const void* p) { return {load32_bytes(p), load32_bytes(static_cast<const char*>(p) + 32)}; }
KVIK_INLINE I iload_u8(const uint8_t* p) { return {_mm256_cvtepu8_epi32(load8_bytes(p)), _mm256_cvtepu8_epi32(load8_bytes(p + 8))}; }
KVIK_INLINE I iadd(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
KVIK_INLINE I isub(I x, I y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
KVIK_INLINE I imul(I x, I y) { return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)}; }
KVIK_INLINE I iand(I x, I y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
KVIK_INLINE I ixor(I x, I y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
template <int n>
KVIK_INLINE I shift_left(I x) {
  return {_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}
template <int n>
KVIK_INLINE I shift_right(I x) {
  return {_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)};
}
template <int n>
KVIK_INLINE I shift_right_signed(I x) {
  return {_mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n)};
}
KVIK_INLINE I bits(F x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
KVIK_INLINE F from_bits(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
KVIK_INLINE F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
KVIK_INLINE I to_int(F x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
KVIK_INLINE void store_i8(int8_t* p, I x) {
  const __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}

KVIK_INLINE float reduce_add(F x) {
  const __m256 v = _mm256_add_ps(x.a, x.b);
  __m128 y = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  y = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
KVIK_INLINE float reduce_max(F x) {
  const __m256 v = _mm256_max_ps(x.a, x.b);
  __m128 y = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  y = _mm_max_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}
KVIK_INLINE float reduce_min(F x) {
  const __m256 v = _mm256_min_ps(x.a, x.b);
  __m128 y = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  y = _mm_min_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_min_ss(y, _mm_movehdup_ps(y)));
}
KVIK_INLINE int32_t reduce_add(I x) {
  const __m256i v = _mm256_add_epi32(x.a, x.b);
  __m128i t = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1)));
}

// GCC reassociates integer sums of an unrolled loop, computes all products first and spills them: an empty asm keeps our order.
KVIK_INLINE void keep(__m256i& x) { __asm__("" : "+x"(x)); }

// Dot products of bytes: |w| * sign(a, w), in 16 bits two products of at most 128 * 127 (32512), so a in [-127, 127].
struct W8 {
  __m256i a, b, abs_a, abs_b;
};
using A8 = __m256i;
struct W4 {
  __m256i low_a, low_b, high_a, high_b;
};
struct Acc4 {
  __m256i a, b;  // 16-bit sums, two to a column: at most 8 * 2 * 15 * 127 = 30480
  I start;
};

KVIK_INLINE W8 load_w8(const uint8_t* p) {
  const __m256i a = load32_bytes(p), b = load32_bytes(p + 32);
  return {a, b, _mm256_abs_epi8(a), _mm256_abs_epi8(b)};
}
KVIK_INLINE A8 bcast_a8(const int8_t* p) {
  int32_t four;
  memcpy(&four, p, sizeof four);
  return _mm256_set1_epi32(four);
}
KVIK_INLINE I start_w8(int32_t) { return ibcast(0); }
KVIK_INLINE I scaled_zero_points(int32_t sum, I zero_points) {
  const __m256i minus = _mm256_set1_epi32(-sum & 0xffff);
  return {_mm256_madd_epi16(zero_points.a, minus), _mm256_madd_epi16(zero_points.b, minus)};
}
KVIK_INLINE I start_w8(int32_t sum, I zero_points) { return iadd(scaled_zero_points(sum, zero_points), ibcast(128 * sum)); }
KVIK_INLINE I dot_w8(I c, W8 w, A8 a) {
  const __m256i one = _mm256_set1_epi16(1);
  c.a = _mm256_add_epi32(c.a, _mm256_madd_epi16(_mm256_maddubs_epi16(w.abs_a, _mm256_sign_epi8(a, w.a)), one));
  c.b = _mm256_add_epi32(c.b, _mm256_madd_epi16(_mm256_maddubs_epi16(w.abs_b, _mm256_sign_epi8(a, w.b)), one));
  keep(c.a);
  keep(c.b);
  return c;
}
KVIK_INLINE __m256i dot_halves(__m256i w, __m256i a) {  // even and odd bytes widened apart: exact for every a in [-128, 127]
  const __m256i even = _mm256_madd_epi16(_mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srai_epi16(w, 8), _mm256_srai_epi16(a, 8));
  return _mm256_add_epi32(even, odd);
}
KVIK_INLINE I dot_w8_full(I c, W8 w, A8 a) {
  c.a = _mm256_add_epi32(c.a, dot_halves(w.a, a));
  c.b = _mm256_add_epi32(c.b, dot_halves(w.b, a));
  keep(c.a);
  keep(c.b);
  return c;
}
KVIK_INLINE W4 load_w4(const uint8_t* p) {
  const __m256i nibble = _mm256_set1_epi8(15), a = load32_bytes(p), b = load32_bytes(p + 32);
  return {_mm256_and_si256(a, nibble), _mm256_and_si256(b, nibble), _mm256_and_si256(_mm256_srli_epi16(a, 4), nibble),
          _mm256_and_si256(_mm256_srli_epi16(b, 4), nibble)};
}
KVIK_INLINE Acc4 start_w4(int32_t sum) { return {_mm256_setzero_si256(), _mm256_setzero_si256(), ibcast(-8 * sum)}; }
KVIK_INLINE Acc4 start_w4(int32_t sum, I zero_points) {
  return {_mm256_setzero_si256(), _mm256_setzero_si256(), scaled_zero_points(sum, zero_points)};
}
KVIK_INLINE Acc4 dot_w4(Acc4 c, W4 w, A8 low, A8 high) {
  c.a = _mm256_add_epi16(c.a, _mm256_maddubs_epi16(w.low_a, low));
  c.b = _mm256_add_epi16(c.b, _mm256_maddubs_epi16(w.low_b, low));
  c.a = _mm256_add_epi16(c.a, _mm256_maddubs_epi16(w.high_a, high));
  c.b = _mm256_add_epi16(c.b, _mm256_maddubs_epi16(w.high_b, high));
  keep(c.a);
  keep(c.b);
  return c;
}
KVIK_INLINE I sum_w4(Acc4 c) {
  const __m256i one = _mm256_set1_epi16(1);
  return {_mm256_add_epi32(_mm256_madd_epi16(c.a, one), c.start.a), _mm256_add_epi32(_mm256_madd_epi16(c.b, one), c.start.b)};
}
// Makes room for the products of another 32 k.
KVIK_INLINE Acc4 widen_w4(Acc4 c) { return {_mm256_setzero_si256(), _mm256_setzero_si256(), sum_w4(c)}; }
KVIK_INLINE __m256i dot_six(__m256i w_low, __m256i low, __m256i w_high, __m256i high) {  // 4 * 63 * 127 = 32004 fits 16 bits
  const __m256i sums = _mm256_add_epi16(_mm256_maddubs_epi16(w_low, low), _mm256_maddubs_epi16(w_high, high));
  return _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
}
KVIK_INLINE I dot_w6(I c, I w_low, A8 low, I w_high, A8 high) {
  c.a = _mm256_add_epi32(c.a, dot_six(w_low.a, low, w_high.a, high));
  c.b = _mm256_add_epi32(c.b, dot_six(w_low.b, low, w_high.b, high));
  keep(c.a);
  keep(c.b);
  return c;
}
KVIK_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
KVIK_INLINE void prefetch_second_level(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

}  // namespace kvik::cpu::avx2
