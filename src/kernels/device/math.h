#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/ops.h"

// Elementary functions on one number, with the same bits on the host and in device kernels: only operations that IEEE 754 defines, fma
// where it is written. The polynomials are those of kernels/cpu/body/math.h. Compile without contraction (-ffp-contract=off, --fmad=false).
// KVIK_BOTH_CALL: long ones, which a kernel calls: instructions that are not in its cache cost more than the call.
#ifdef __CUDACC__
#define KVIK_BOTH __host__ __device__ __forceinline__
#define KVIK_BOTH_CALL inline __host__ __device__ __noinline__
#else
#define KVIK_BOTH inline
#define KVIK_BOTH_CALL inline
#endif

namespace kvik::device {

KVIK_BOTH uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
KVIK_BOTH float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
KVIK_BOTH float infinity() { return float_of(0x7f800000u); }
KVIK_BOTH float fused(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}
KVIK_BOTH double fused(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}
KVIK_BOTH float root_of(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}
KVIK_BOTH float absolute(float x) { return float_of(bits_of(x) & 0x7fffffffu); }
KVIK_BOTH float with_sign_of(float magnitude, float sign) { return float_of(bits_of(magnitude) ^ (bits_of(sign) & 0x80000000u)); }

constexpr float kLeastExponent = -87.0f;  // below it, powers of e are taken as 0
// e to the power of a number from kLeastExponent to 88.7228317.
KVIK_BOTH float exp_within(float x) {
  const float magic = 12582912.0f;
  const float t = fused(x, 1.44269504f, magic), n = t - magic;
  float r = fused(n, -0.693145752f, x);
  r = fused(n, -1.42860677e-6f, r);
  float y = 1.395053812e-3f;
  y = fused(y, r, 8.368917741e-3f);
  y = fused(y, r, 4.166620597e-2f);
  y = fused(y, r, 1.666651815e-1f);
  y = fused(y, r, 0.5f);
  y = fused(y, r * r, r);
  y = y + 1.0f;
  return float_of(bits_of(y) + (bits_of(t) << 23));
}
// 2 ulp. Below -87 exactly 0.
KVIK_BOTH float exp_of(float x) {
  const float high = 88.7228317f;
  float y = exp_within(x < kLeastExponent ? kLeastExponent : x > high ? high : x);
  y = x < kLeastExponent ? 0.0f : x > high ? infinity() : y;
  return x == x ? y : x;
}
// The same for what is not above 0, in fewer instructions.
KVIK_BOTH float exp_of_negative(float x) {
  const float y = exp_within(x < kLeastExponent ? kLeastExponent : x);
  return x < kLeastExponent ? 0.0f : x == x ? y : x;
}

// 1 ulp (2 within 1e-3 of 1). Zero gives -inf, negative numbers NaN.
KVIK_BOTH_CALL float log_of(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const uint32_t shifted = bits_of(tiny ? x * 8388608.0f : x) - 0x3f3504f3u;
  const float exponent = static_cast<float>(static_cast<int32_t>(shifted) >> 23) - (tiny ? 23.0f : 0.0f);
  const float f = float_of((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float p = 6.746601313e-2f;
  p = fused(p, f, -1.167564094e-1f);
  p = fused(p, f, 1.188817471e-1f);
  p = fused(p, f, -1.240559146e-1f);
  p = fused(p, f, 1.421955079e-1f);
  p = fused(p, f, -1.666799635e-1f);
  p = fused(p, f, 2.000211924e-1f);
  p = fused(p, f, -2.500000894e-1f);
  p = fused(p, f, 3.333331347e-1f);
  const float square = f * f;
  float y = p * f * square;
  y = fused(exponent, 1.42860677e-6f, y);
  y = fused(square, -0.5f, y);
  y = f + y;
  y = fused(exponent, 0.693145752f, y);
  if (x == infinity() || x != x) return x;
  if (x == 0.0f) return -infinity();
  return x < 0.0f ? float_of(0x7fc00000u) : y;
}

// 2 ulp.
KVIK_BOTH_CALL float tanh_of(float x) {
  const float a = absolute(x), z = x * x;
  float p = 2.147536958e-3f;
  p = fused(p, z, -8.182673715e-3f);
  p = fused(p, z, 2.170296758e-2f);
  p = fused(p, z, -5.394720286e-2f);
  p = fused(p, z, 1.333321035e-1f);
  p = fused(p, z, -3.333333135e-1f);
  if (a < 0.625f) return fused(p * z, x, x);
  return with_sign_of(1.0f - 2.0f / (exp_of(a + a) + 1.0f), x);
}

// 2 ulp.
KVIK_BOTH_CALL float erf_of(float x) {
  const float a = absolute(x), z = x * x, t = a < 4.0f ? a : 4.0f;
  float p = 8.345225069e-5f;
  p = fused(p, z, -8.137437399e-4f);
  p = fused(p, z, 5.200634245e-3f);
  p = fused(p, z, -2.685927041e-2f);
  p = fused(p, z, 1.128369421e-1f);
  p = fused(p, z, -3.761263490e-1f);
  p = fused(p, z, 1.283791661e-1f);
  float q = 4.806473953e-6f;
  q = fused(q, t, -4.399994577e-5f);
  q = fused(q, t, -5.751315621e-5f);
  q = fused(q, t, 2.951671835e-3f);
  q = fused(q, t, -2.270829864e-2f);
  q = fused(q, t, 1.052944437e-1f);
  q = fused(q, t, 6.356092691e-1f);
  q = fused(q, t, 1.285551190e-1f);
  q = fused(q, t, t);
  if (x != x) return x;
  return a < 0.925f ? fused(p, x, x) : with_sign_of(1.0f - exp_of(-q), x);
}

// Sine (quarter 0) and cosine (quarter 1). The remainder of large arguments is found in double.
KVIK_BOTH_CALL float sine_of(float x, uint32_t quarter) {
  if (!(absolute(x) < infinity())) return float_of(0x7fc00000u);
  float r;
  uint32_t quadrant;
  if (absolute(x) <= 131072.0f) {
    const float magic = 12582912.0f, t = fused(x, 0.636619772f, magic), n = t - magic;
    r = fused(n, -1.57079637f, x);
    r = fused(n, 4.37113883e-8f, r);
    r = fused(n, 1.71512451e-15f, r);
    quadrant = bits_of(t);
  } else {
    const double wide = x, magic = 6755399441055744.0;  // 1.5 * 2^52
    const double n = fused(wide, 0.6366197723675814, magic) - magic;
    double rest = fused(n, -1.5707963267948966, wide);
    rest = fused(n, -6.123233995736766e-17, rest);
    r = static_cast<float>(rest);
    quadrant = static_cast<uint32_t>(static_cast<int64_t>(n - 4.0 * floor(n * 0.25)));
  }
  quadrant += quarter;
  const float z = r * r;
  float s = 2.718274345e-6f;
  s = fused(s, z, -1.983933034e-4f);
  s = fused(s, z, 8.333329111e-3f);
  s = fused(s, z, -1.666666716e-1f);
  s = fused(s * z, r, r);
  float c = -2.720989301e-7f;
  c = fused(c, z, 2.479951581e-5f);
  c = fused(c, z, -1.388888340e-3f);
  c = fused(c, z, 4.166666791e-2f);
  c = fused(c * z, z, fused(z, -0.5f, 1.0f));
  const float magnitude = (quadrant & 1) == 0 ? s : c;
  return float_of(bits_of(magnitude) ^ ((quadrant & 2) << 30));
}

// log2 and 2^x in double, for powers: errors around 1e-15, far below what rounding to f32 shows.
KVIK_BOTH double log2_wide(double x) {  // x > 0, finite
  uint64_t bits = __builtin_bit_cast(uint64_t, x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m = __builtin_bit_cast(double, (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m = m * 0.5, ++exponent;
  const double f = (m - 1.0) / (m + 1.0), z = f * f;
  double p = 1.0 / 21.0;
  for (int i = 19; i >= 1; i -= 2) p = fused(p, z, 1.0 / static_cast<double>(i));
  return fused(f * p, 2.8853900817779268, static_cast<double>(exponent));
}
KVIK_BOTH double exp2_wide(double x) {  // |x| < 1000
  const double n = floor(x + 0.5), r = (x - n) * 0.6931471805599453;
  double p = 1.0;
  for (int i = 14; i >= 1; --i) p = fused(p, r / static_cast<double>(i), 1.0);
  return p * __builtin_bit_cast(double, static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52);
}

KVIK_BOTH_CALL float pow_of(float a, float b) {
  if (b == 0.0f || a == 1.0f) return 1.0f;
  if (a != a || b != b) return a != a ? a : b;
  if (b == 1.0f) return a;
  if (b == 2.0f) return a * a;
  if (b == 3.0f) return a * a * a;
  if (b == -1.0f) return 1.0f / a;
  const bool whole = floorf(b) == b, odd = whole && absolute(b) < 16777216.0f && floorf(b * 0.5f) * 2.0f != b;
  const float size = absolute(a);
  const bool negative = odd && (bits_of(a) >> 31) != 0;
  float y;
  if (size == 0.0f) {
    y = b > 0.0f ? 0.0f : infinity();
  } else if (size == infinity()) {
    y = b > 0.0f ? infinity() : 0.0f;
  } else if (absolute(b) == infinity()) {
    y = size == 1.0f ? 1.0f : (size > 1.0f) == (b > 0.0f) ? infinity() : 0.0f;
  } else if (a < 0.0f && !whole) {
    return float_of(0x7fc00000u);
  } else {
    double power = static_cast<double>(b) * log2_wide(static_cast<double>(size));
    power = power < -500.0 ? -500.0 : power > 500.0 ? 500.0 : power;
    y = static_cast<float>(exp2_wide(power));
  }
  return negative ? -y : y;
}

KVIK_BOTH_CALL float softplus_of(float x) {
  if (x != x) return x;
  const float e = exp_of(-absolute(x)), u = 1.0f + e, rest = u - 1.0f;
  return (x > 0.0f ? x : 0.0f) + (rest == 0.0f ? e : log_of(u) * (e / rest));
}

KVIK_BOTH float round_even(float x) {
  if (!(absolute(x) < 8388608.0f)) return x;
  const float y = absolute(x) + 8388608.0f - 8388608.0f;
  return with_sign_of(y, x);
}

KVIK_BOTH_CALL float unary_of(Unary op, float x) {
  switch (op) {
    case Unary::kNeg: return float_of(bits_of(x) ^ 0x80000000u);
    case Unary::kAbs: return absolute(x);
    case Unary::kSqrt: return root_of(x);
    case Unary::kRsqrt: return 1.0f / root_of(x);
    case Unary::kReciprocal: return 1.0f / x;
    case Unary::kExp: return exp_of(x);
    case Unary::kLog: return log_of(x);
    case Unary::kTanh: return tanh_of(x);
    case Unary::kErf: return erf_of(x);
    case Unary::kSigmoid: return 1.0f / (1.0f + exp_of(-x));
    case Unary::kSilu: return x / (1.0f + exp_of(-x));
    case Unary::kGeluErf: return 0.5f * x * (1.0f + erf_of(x * 0.707106781f));
    case Unary::kGeluTanh: return 0.5f * x * (1.0f + tanh_of(0.797884561f * fused(0.044715f * x, x * x, x)));
    case Unary::kGeluQuick: return x / (1.0f + exp_of(x * -1.702f));
    case Unary::kRelu: return x != x ? x : x > 0.0f ? x : 0.0f;
    case Unary::kSoftplus: return softplus_of(x);
    case Unary::kSin: return sine_of(x, 0);
    case Unary::kCos: return sine_of(x, 1);
    case Unary::kFloor: return floorf(x);
    case Unary::kCeil: return ceilf(x);
    case Unary::kRound: return round_even(x);
    case Unary::kSign: return x != x ? x : static_cast<float>((x > 0.0f) - (x < 0.0f));
    case Unary::kSquare: return x * x;
    case Unary::kNot: return x == 0.0f ? 1.0f : 0.0f;
    case Unary::kIdentity: return x;
  }
  return x;
}

KVIK_BOTH float truth(bool value) { return value ? 1.0f : 0.0f; }

KVIK_BOTH_CALL float binary_of(Binary op, float a, float b) {
  switch (op) {
    case Binary::kAdd: return a + b;
    case Binary::kSub: return a - b;
    case Binary::kMul: return a * b;
    case Binary::kDiv: return a / b;
    case Binary::kMin: return a != a ? a : a < b ? a : b;
    case Binary::kMax: return a != a ? a : a > b ? a : b;
    case Binary::kPow: return pow_of(a, b);
    case Binary::kMod: return fused(-b, floorf(a / b), a);
    case Binary::kLess: return truth(a < b);
    case Binary::kLessEqual: return truth(a <= b);
    case Binary::kGreater: return truth(a > b);
    case Binary::kGreaterEqual: return truth(a >= b);
    case Binary::kEqual: return truth(a == b);
    case Binary::kNotEqual: return truth(a != b);
    case Binary::kAnd: return truth(a != 0.0f && b != 0.0f);
    case Binary::kOr: return truth(a != 0.0f || b != 0.0f);
    case Binary::kXor: return truth((a != 0.0f) != (b != 0.0f));
  }
  return a;
}

KVIK_BOTH float clip_of(float x, float low, float high) {
  if (x != x) return x;
  const float y = x < low ? low : x;
  return y > high ? high : y;
}

KVIK_BOTH_CALL float rounded_of(float x, const Rounding& r) {
  const float y = round_even(x / r.step), z = y < r.low ? r.low : y;
  return (z > r.high ? r.high : z) * r.unit;
}

// The power of two that brings a largest magnitude into [2^14, 2^15), as an exponent; 0 for zero, infinities and NaN.
KVIK_BOTH int32_t half_exponent(uint32_t largest_bits) {
  if (largest_bits == 0 || largest_bits >= 0x7f800000u) return 0;
  const int32_t exponent = 14 + 127 - static_cast<int32_t>(largest_bits >> 23);
  return exponent > 100 ? 100 : exponent;
}
KVIK_BOTH float power_of_two(int32_t exponent) { return float_of(static_cast<uint32_t>(exponent + 127) << 23); }

// What a part of attention weighs against the largest score so far; hidden throughout, 0.
KVIK_BOTH float part_weight(float largest, float of_all) { return exp_of(largest - (of_all == -infinity() ? 0.0f : of_all)); }

}  // namespace kvik::device
