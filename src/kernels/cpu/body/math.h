#pragma once

#include "kernels/cpu/slow_math.h"

// Elementary functions, the same bits on every instruction set. Errors, against double over the whole range, are stated in units in the
// last place (ulp) of the result and asserted by tests/kernels/test_math.cc. Requires the vec.h of an instruction set.
namespace kvik::cpu::KVIK_ISA {

constexpr float kInfinity = __builtin_inff();

KVIK_INLINE F negate(F x) { return from_bits(ixor(bits(x), ibcast(INT32_MIN))); }
KVIK_INLINE F absolute(F x) { return from_bits(iand(bits(x), ibcast(INT32_MAX))); }
KVIK_INLINE F with_sign_of(F magnitude, F sign) { return from_bits(ixor(bits(magnitude), iand(bits(sign), ibcast(INT32_MIN)))); }
// x where it is NaN, y elsewhere.
KVIK_INLINE F keep_nan(F x, F y) { return select(equal(x, x), y, x); }

// exp of -87 to 88.7. x = n ln2 + r; 2^n goes into the exponent by an integer add.
KVIK_INLINE F exp_within_range(F x) {
  const F magic = bcast(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const F t = fma(x, bcast(1.44269504f), magic);
  const F n = sub(t, magic);
  F r = fma(n, bcast(-0.693145752f), x);
  r = fma(n, bcast(-1.42860677e-6f), r);
  F y = bcast(1.395053812e-3f);
  y = fma(y, r, bcast(8.368917741e-3f));
  y = fma(y, r, bcast(4.166620597e-2f));
  y = fma(y, r, bcast(1.666651815e-1f));
  y = fma(y, r, bcast(0.5f));
  y = fma(y, mul(r, r), r);
  y = add(y, bcast(1.0f));
  return from_bits(iadd(bits(y), shift_left<23>(bits(t))));
}

constexpr float kLowestExponent = -87.0f;

// exp of numbers that are not positive, with the bits of exp().
KVIK_INLINE F exp_not_positive(F x) {
  const F low = bcast(kLowestExponent);
  return keep_nan(x, select(less(x, low), zero(), exp_within_range(max(x, low))));
}

// 2 ulp. Below -87 (results under 1.7e-38) exactly 0.
KVIK_INLINE F exp(F x) {
  const F low = bcast(kLowestExponent), high = bcast(88.7228317f);
  F y = exp_within_range(min(max(x, low), high));
  y = select(less(x, low), zero(), y);
  y = select(less(high, x), bcast(kInfinity), y);
  return keep_nan(x, y);
}

// 1 ulp (2 within 1e-3 of 1). x = m 2^e with m in [sqrt(1/2), sqrt(2)). Zero gives -inf, negative numbers NaN.
KVIK_INLINE F log(F x) {
  const auto tiny = less(x, bcast(1.17549435e-38f));
  const I scaled = bits(select(tiny, mul(x, bcast(8388608.0f)), x));
  const I shifted = isub(scaled, ibcast(0x3f3504f3));  // bits of sqrt(1/2)
  const F exponent = sub(to_float(shift_right_signed<23>(shifted)), select(tiny, bcast(23.0f), zero()));
  const I mantissa = iadd(iand(shifted, ibcast(0x007fffff)), ibcast(0x3f3504f3));
  const F f = sub(from_bits(mantissa), bcast(1.0f));
  F p = bcast(6.746601313e-2f);
  p = fma(p, f, bcast(-1.167564094e-1f));
  p = fma(p, f, bcast(1.188817471e-1f));
  p = fma(p, f, bcast(-1.240559146e-1f));
  p = fma(p, f, bcast(1.421955079e-1f));
  p = fma(p, f, bcast(-1.666799635e-1f));
  p = fma(p, f, bcast(2.000211924e-1f));
  p = fma(p, f, bcast(-2.500000894e-1f));
  p = fma(p, f, bcast(3.333331347e-1f));
  const F square = mul(f, f);
  F y = mul(mul(p, f), square);
  y = fma(exponent, bcast(1.42860677e-6f), y);
  y = fma(square, bcast(-0.5f), y);
  y = add(f, y);
  y = fma(exponent, bcast(0.693145752f), y);
  y = select(equal(x, bcast(kInfinity)), x, y);
  y = select(equal(x, zero()), bcast(-kInfinity), y);
  y = select(less(x, zero()), bcast(__builtin_nanf("")), y);
  return keep_nan(x, y);
}

// 2 ulp.
KVIK_INLINE F tanh(F x) {
  const F a = absolute(x), z = mul(x, x);
  F p = bcast(2.147536958e-3f);
  p = fma(p, z, bcast(-8.182673715e-3f));
  p = fma(p, z, bcast(2.170296758e-2f));
  p = fma(p, z, bcast(-5.394720286e-2f));
  p = fma(p, z, bcast(1.333321035e-1f));
  p = fma(p, z, bcast(-3.333333135e-1f));
  const F small = fma(mul(p, z), x, x);
  const F e = exp(add(a, a));
  const F large = sub(bcast(1.0f), div(bcast(2.0f), add(e, bcast(1.0f))));
  return select(less(a, bcast(0.625f)), small, with_sign_of(large, x));
}

// 2 ulp.
KVIK_INLINE F erf(F x) {
  const F a = absolute(x), z = mul(x, x), t = min(a, bcast(4.0f));  // beyond 4 it is 1
  F p = bcast(8.345225069e-5f);
  p = fma(p, z, bcast(-8.137437399e-4f));
  p = fma(p, z, bcast(5.200634245e-3f));
  p = fma(p, z, bcast(-2.685927041e-2f));
  p = fma(p, z, bcast(1.128369421e-1f));
  p = fma(p, z, bcast(-3.761263490e-1f));
  p = fma(p, z, bcast(1.283791661e-1f));
  const F small = fma(p, x, x);
  F q = bcast(4.806473953e-6f);
  q = fma(q, t, bcast(-4.399994577e-5f));
  q = fma(q, t, bcast(-5.751315621e-5f));
  q = fma(q, t, bcast(2.951671835e-3f));
  q = fma(q, t, bcast(-2.270829864e-2f));
  q = fma(q, t, bcast(1.052944437e-1f));
  q = fma(q, t, bcast(6.356092691e-1f));
  q = fma(q, t, bcast(1.285551190e-1f));
  q = fma(q, t, t);
  const F large = sub(bcast(1.0f), exp(negate(q)));
  return keep_nan(x, select(less(a, bcast(0.925f)), small, with_sign_of(large, x)));
}

// Sine (kQuarter 0) and cosine (kQuarter 1): 2 ulp, or 1e-10 near their zeros. Quadrant n, remainder r = x - n pi/2 in three steps of
// which the first is exact up to 2^17; larger arguments take the slow way, lane by lane.
template <int kQuarter>
KVIK_INLINE F sine(F x) {
  const F magic = bcast(12582912.0f);
  const F t = fma(x, bcast(0.636619772f), magic), n = sub(t, magic);
  F r = fma(n, bcast(-1.57079637f), x);
  r = fma(n, bcast(4.37113883e-8f), r);
  r = fma(n, bcast(1.71512451e-15f), r);
  const F z = mul(r, r);
  F s = bcast(2.718274345e-6f);
  s = fma(s, z, bcast(-1.983933034e-4f));
  s = fma(s, z, bcast(8.333329111e-3f));
  s = fma(s, z, bcast(-1.666666716e-1f));
  s = fma(mul(s, z), r, r);
  F c = bcast(-2.720989301e-7f);
  c = fma(c, z, bcast(2.479951581e-5f));
  c = fma(c, z, bcast(-1.388888340e-3f));
  c = fma(c, z, bcast(4.166666791e-2f));
  c = fma(mul(c, z), z, fma(z, bcast(-0.5f), bcast(1.0f)));
  const I quadrant = iadd(bits(t), ibcast(kQuarter));
  const F odd = to_float(iand(quadrant, ibcast(1)));
  const F magnitude = select(equal(odd, zero()), s, c);
  const F y = from_bits(ixor(bits(magnitude), shift_left<30>(iand(quadrant, ibcast(2)))));  // quadrants 2 and 3 are negative
  const auto near = less_equal(absolute(x), bcast(131072.0f));
  if (all(near)) return y;
  float lanes[kLanes];
  store(lanes, x);
  kQuarter == 0 ? slow_sin(lanes) : slow_cos(lanes);
  return select(near, y, load(lanes));
}

KVIK_INLINE F sigmoid(F x) { return div(bcast(1.0f), add(bcast(1.0f), exp(negate(x)))); }
KVIK_INLINE F silu(F x) { return div(x, add(bcast(1.0f), exp(negate(x)))); }

// x times the normal distribution up to x: by erf, by tanh, by a sigmoid.
KVIK_INLINE F gelu_erf(F x) { return mul(mul(bcast(0.5f), x), add(bcast(1.0f), erf(mul(x, bcast(0.707106781f))))); }
KVIK_INLINE F gelu_tanh(F x) {
  const F inner = mul(bcast(0.797884561f), fma(mul(bcast(0.044715f), x), mul(x, x), x));
  return mul(mul(bcast(0.5f), x), add(bcast(1.0f), tanh(inner)));
}
KVIK_INLINE F gelu_quick(F x) { return div(x, add(bcast(1.0f), exp(mul(x, bcast(-1.702f))))); }

// log(1 + exp(x)); log(1 + e) / (u - 1) * e repairs what rounding u = 1 + e loses.
KVIK_INLINE F softplus(F x) {
  const F e = exp(negate(absolute(x))), u = add(bcast(1.0f), e), rest = sub(u, bcast(1.0f));
  const F small = select(equal(rest, zero()), e, mul(log(u), div(e, rest)));
  return keep_nan(x, add(max(x, zero()), small));
}

}  // namespace kvik::cpu::KVIK_ISA
