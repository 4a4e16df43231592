#pragma once

#include <immintrin.h>

#include "kernels/cpu/body/common.h"

// AVX-512 (F, BW, VL, DQ) with VNNI: the virtual vector is one register.
#define KVIK_ISA avx512

namespace kvik::cpu::avx512 {

constexpr int kFloatRows = 8, kFloatVectors = 2, kBlockRows = 8, kSmallBlockRows = 6, kBlockPanels = 2, kScoreHeads = 7, kScoreSums = 16,
              kValueHeads = 4, kValueSums = 16;
constexpr int kPrefetchBytes = 0;  // the processor prefetches weights well by itself

using F = __m512;
using I = __m512i;
using Mask = __mmask16;

KVIK_INLINE Mask first_lanes(int n) { return static_cast<Mask>((1u << n) - 1u); }

KVIK_INLINE F zero() { return _mm512_setzero_ps(); }
KVIK_INLINE F bcast(float x) { return _mm512_set1_ps(x); }
KVIK_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
KVIK_INLINE F load(const Half* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
KVIK_INLINE F load(const BFloat16* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
KVIK_INLINE F load(const int8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
KVIK_INLINE F load_n(const float* p, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
KVIK_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }
KVIK_INLINE void store(Half* p, F x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
KVIK_INLINE void store_n(float* p, F x, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), x); }

KVIK_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
KVIK_INLINE float fma1(float a, float b, float c) { return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c))); }
KVIK_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
KVIK_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
KVIK_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
KVIK_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
KVIK_INLINE F sqrt(F a) { return _mm512_sqrt_ps(a); }
KVIK_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }  // b where either is NaN
KVIK_INLINE F min(F a, F b) { return _mm512_min_ps(a, b); }
KVIK_INLINE F round_even(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
KVIK_INLINE F floor(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
KVIK_INLINE F ceil(F a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }

KVIK_INLINE Mask less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
KVIK_INLINE Mask less_equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
KVIK_INLINE Mask equal(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
KVIK_INLINE F select(Mask m, F yes, F no) { return _mm512_mask_blend_ps(m, no, yes); }
KVIK_INLINE bool all(Mask m) { return m == 0xffff; }

KVIK_INLINE I ibcast(int32_t x) { return _mm512_set1_epi32(x); }
KVIK_INLINE I iload(const void* p) { return _mm512_loadu_si512(p); }
KVIK_INLINE I iload_u8(const uint8_t* p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
KVIK_INLINE I iadd(I a, I b) { return _mm512_add_epi32(a, b); }
KVIK_INLINE I isub(I a, I b) { return _mm512_sub_epi32(a, b); }
KVIK_INLINE I imul(I a, I b) { return _mm512_mullo_epi32(a, b); }
KVIK_INLINE I iand(I a, I b) { return _mm512_and_si512(a, b); }
KVIK_INLINE I ixor(I a, I b) { return _mm512_xor_si512(a, b); }
template <int n>
KVIK_INLINE I shift_left(I a) {
  return _mm512_slli_epi32(a, n);
}
template <int n>
KVIK_INLINE I shift_right(I a) {
  return _mm512_srli_epi32(a, n);
}
template <int n>
KVIK_INLINE I shift_right_signed(I a) {
  return _mm512_srai_epi32(a, n);
}
KVIK_INLINE I bits(F a) { return _mm512_castps_si512(a); }
KVIK_INLINE F from_bits(I a) { return _mm512_castsi512_ps(a); }
KVIK_INLINE F to_float(I a) { return _mm512_cvtepi32_ps(a); }
KVIK_INLINE I to_int(F a) { return _mm512_cvtps_epi32(a); }
KVIK_INLINE void store_i8(int8_t* p, I a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a)); }

// Lanes i and i + 8, then + 4, + 2, + 1: one tree on every instruction set.
KVIK_INLINE float reduce_add(F a) {
  const __m256 x = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
KVIK_INLINE float reduce_max(F a) {
  const __m256 x = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = _mm_max_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}
KVIK_INLINE float reduce_min(F a) {
  const __m256 x = _mm256_min_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 y = _mm_min_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  y = _mm_min_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_min_ss(y, _mm_movehdup_ps(y)));
}
KVIK_INLINE int32_t reduce_add(I a) { return _mm512_reduce_add_epi32(a); }

// Dot products of bytes. VNNI multiplies unsigned by signed: the weight byte becomes w + 128, and the sum starts at what that adds.
using W8 = __m512i;
using A8 = __m512i;
using Acc4 = __m512i;
struct W4 {
  __m512i low, high;
};

KVIK_INLINE W8 load_w8(const uint8_t* p) { return _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(-128)); }
KVIK_INLINE A8 bcast_a8(const int8_t* p) {
  int32_t four;
  memcpy(&four, p, sizeof four);
  return _mm512_set1_epi32(four);
}
// -2^n sum in every lane: a broadcast from a general register would take longer.
template <int n>
KVIK_INLINE I less_sums(const int32_t& sum) {
  __m512i sums = _mm512_set1_epi32(sum);
  asm("" : "+v"(sums));
  return _mm512_slli_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), sums), n);
}
KVIK_INLINE I start_w8(const int32_t& sum) { return less_sums<7>(sum); }
KVIK_INLINE I start_w8(int32_t sum, I zero_points) { return _mm512_madd_epi16(zero_points, _mm512_set1_epi32(-sum & 0xffff)); }
// GCC would otherwise compute several products before it adds them up, and spill.
KVIK_INLINE I keep_order(I c) {
  asm("" : "+v"(c));
  return c;
}
KVIK_INLINE I dot_w8(I c, W8 w, A8 a) { return keep_order(_mm512_dpbusd_epi32(c, w, a)); }
KVIK_INLINE I dot_w8_full(I c, W8 w, A8 a) { return dot_w8(c, w, a); }
KVIK_INLINE W4 load_w4(const uint8_t* p) {
  const __m512i x = _mm512_loadu_si512(p), nibble = _mm512_set1_epi8(15);
  return {_mm512_and_si512(x, nibble), _mm512_and_si512(_mm512_srli_epi16(x, 4), nibble)};
}
KVIK_INLINE Acc4 start_w4(const int32_t& sum) { return less_sums<3>(sum); }
KVIK_INLINE Acc4 start_w4(int32_t sum, I zero_points) { return start_w8(sum, zero_points); }
KVIK_INLINE Acc4 dot_w4(Acc4 c, W4 w, A8 low, A8 high) { return dot_w8(dot_w8(c, w.low, low), w.high, high); }
KVIK_INLINE I sum_w4(Acc4 c) { return c; }
KVIK_INLINE Acc4 widen_w4(Acc4 c) { return c; }
KVIK_INLINE I dot_w6(I c, I w_low, A8 low, I w_high, A8 high) { return dot_w8(dot_w8(c, w_low, low), w_high, high); }
KVIK_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
KVIK_INLINE void prefetch_second_level(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

}  // namespace kvik::cpu::avx512
