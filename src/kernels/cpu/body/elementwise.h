#pragma once

#include "kernels/cpu/body/rows.h"

// Value by value; y may be an operand. A value's result depends on nothing but its operands.
namespace kvik::cpu::KVIK_ISA {

KVIK_INLINE F truth(Mask m) { return select(m, bcast(1.0f), zero()); }
KVIK_INLINE F falsehood(Mask m) { return select(m, zero(), bcast(1.0f)); }
KVIK_INLINE Mask is_false(F x) { return equal(x, zero()); }

KVIK_INLINE F sign_of(F x) { return keep_nan(x, sub(truth(less(zero(), x)), truth(less(x, zero())))); }

template <class Function>
KVIK_INLINE void map(const float* x, float* y, int64_t n, Function f) {
  for_vectors(n, [&](int64_t i, int k) { store_some(y + i, f(load_some(x + i, k)), k); });
}

void unary(Unary op, const float* x, float* y, int64_t n) {
  const F one = bcast(1.0f);
  switch (op) {
    case Unary::kNeg: return map(x, y, n, [](F v) { return negate(v); });
    case Unary::kAbs: return map(x, y, n, [](F v) { return absolute(v); });
    case Unary::kSqrt: return map(x, y, n, [](F v) { return sqrt(v); });
    case Unary::kRsqrt: return map(x, y, n, [&](F v) { return div(one, sqrt(v)); });
    case Unary::kReciprocal: return map(x, y, n, [&](F v) { return div(one, v); });
    case Unary::kExp: return map(x, y, n, [](F v) { return exp(v); });
    case Unary::kLog: return map(x, y, n, [](F v) { return log(v); });
    case Unary::kTanh: return map(x, y, n, [](F v) { return tanh(v); });
    case Unary::kErf: return map(x, y, n, [](F v) { return erf(v); });
    case Unary::kSigmoid: return map(x, y, n, [](F v) { return sigmoid(v); });
    case Unary::kSilu: return map(x, y, n, [](F v) { return silu(v); });
    case Unary::kGeluErf: return map(x, y, n, [](F v) { return gelu_erf(v); });
    case Unary::kGeluTanh: return map(x, y, n, [](F v) { return gelu_tanh(v); });
    case Unary::kGeluQuick: return map(x, y, n, [](F v) { return gelu_quick(v); });
    case Unary::kRelu: return map(x, y, n, [](F v) { return keep_nan(v, max(v, zero())); });
    case Unary::kSoftplus: return map(x, y, n, [](F v) { return softplus(v); });
    case Unary::kSin: return map(x, y, n, [](F v) { return sine<0>(v); });
    case Unary::kCos: return map(x, y, n, [](F v) { return sine<1>(v); });
    case Unary::kFloor: return map(x, y, n, [](F v) { return floor(v); });
    case Unary::kCeil: return map(x, y, n, [](F v) { return ceil(v); });
    case Unary::kRound: return map(x, y, n, [](F v) { return round_even(v); });
    case Unary::kSign: return map(x, y, n, [](F v) { return sign_of(v); });
    case Unary::kSquare: return map(x, y, n, [](F v) { return mul(v, v); });
    case Unary::kNot: return map(x, y, n, [](F v) { return truth(is_false(v)); });
    case Unary::kIdentity: return map(x, y, n, [](F v) { return v; });
  }
}

// Two operands, each a row or one value for all.
template <class Function>
KVIK_INLINE void zip(Operand a, Operand b, float* y, int64_t n, Function f) {
  const F a_all = a.is_scalar ? bcast(*a.data) : zero(), b_all = b.is_scalar ? bcast(*b.data) : zero();
  for_vectors(n, [&](int64_t i, int k) {
    const F u = a.is_scalar ? a_all : load_some(a.data + i, k), v = b.is_scalar ? b_all : load_some(b.data + i, k);
    store_some(y + i, f(u, v), k);
  });
}

KVIK_INLINE F slow_power(F a, F b) {
  float base[kLanes], exponent[kLanes];
  store(base, a);
  store(exponent, b);
  slow_pow(base, exponent);
  return load(base);
}

// The exponents that graphs are full of cost a few instructions; each is the rounded product or root itself.
KVIK_INLINE void power_row(Operand a, Operand b, float* y, int64_t n) {
  const float p = b.is_scalar ? *b.data : 0.0f;
  if (p == 1.0f) return zip(a, b, y, n, [](F u, F) { return u; });
  if (p == 2.0f) return zip(a, b, y, n, [](F u, F) { return mul(u, u); });
  if (p == 3.0f) return zip(a, b, y, n, [](F u, F) { return mul(mul(u, u), u); });
  if (p == -1.0f) return zip(a, b, y, n, [](F u, F) { return div(bcast(1.0f), u); });
  zip(a, b, y, n, [](F u, F v) { return slow_power(u, v); });
}

void binary(Binary op, Operand a, Operand b, float* y, int64_t n) {
  switch (op) {
    case Binary::kAdd: return zip(a, b, y, n, [](F u, F v) { return add(u, v); });
    case Binary::kSub: return zip(a, b, y, n, [](F u, F v) { return sub(u, v); });
    case Binary::kMul: return zip(a, b, y, n, [](F u, F v) { return mul(u, v); });
    case Binary::kDiv: return zip(a, b, y, n, [](F u, F v) { return div(u, v); });
    case Binary::kMin: return zip(a, b, y, n, [](F u, F v) { return keep_nan(u, min(u, v)); });
    case Binary::kMax: return zip(a, b, y, n, [](F u, F v) { return keep_nan(u, max(u, v)); });
    case Binary::kPow: return power_row(a, b, y, n);
    case Binary::kMod: return zip(a, b, y, n, [](F u, F v) { return fma(negate(v), floor(div(u, v)), u); });
    case Binary::kLess: return zip(a, b, y, n, [](F u, F v) { return truth(less(u, v)); });
    case Binary::kLessEqual: return zip(a, b, y, n, [](F u, F v) { return truth(less_equal(u, v)); });
    case Binary::kGreater: return zip(a, b, y, n, [](F u, F v) { return truth(less(v, u)); });
    case Binary::kGreaterEqual: return zip(a, b, y, n, [](F u, F v) { return truth(less_equal(v, u)); });
    case Binary::kEqual: return zip(a, b, y, n, [](F u, F v) { return truth(equal(u, v)); });
    case Binary::kNotEqual: return zip(a, b, y, n, [](F u, F v) { return falsehood(equal(u, v)); });
    case Binary::kAnd: return zip(a, b, y, n, [](F u, F v) { return mul(falsehood(is_false(u)), falsehood(is_false(v))); });
    case Binary::kOr: return zip(a, b, y, n, [](F u, F v) { return max(falsehood(is_false(u)), falsehood(is_false(v))); });
    case Binary::kXor: return zip(a, b, y, n, [](F u, F v) { return falsehood(equal(truth(is_false(u)), truth(is_false(v)))); });
  }
}

void where(Operand condition, Operand yes, Operand no, float* y, int64_t n) {
  const auto at = [](Operand o, int64_t i, int k) { return o.is_scalar ? bcast(*o.data) : load_some(o.data + i, k); };
  for_vectors(n, [&](int64_t i, int k) { store_some(y + i, select(is_false(at(condition, i, k)), at(no, i, k), at(yes, i, k)), k); });
}

void clip(const float* x, float low, float high, float* y, int64_t n) {
  const F l = bcast(low), h = bcast(high);
  map(x, y, n, [&](F v) { return keep_nan(v, min(max(v, l), h)); });
}

// y = f(a) * b: a gated feed-forward in one pass.
template <class Function>
KVIK_INLINE void gate_by(const float* a, const float* b, float* y, int64_t n, Function f) {
  zip({a}, {b}, y, n, [&](F u, F v) { return mul(f(u), v); });
}

void gate(Unary op, const float* a, const float* b, float* y, int64_t n) {
  switch (op) {
    case Unary::kSilu: return gate_by(a, b, y, n, [](F v) { return silu(v); });
    case Unary::kGeluErf: return gate_by(a, b, y, n, [](F v) { return gelu_erf(v); });
    case Unary::kGeluTanh: return gate_by(a, b, y, n, [](F v) { return gelu_tanh(v); });
    case Unary::kSigmoid: return gate_by(a, b, y, n, [](F v) { return sigmoid(v); });
    case Unary::kRelu: return gate_by(a, b, y, n, [](F v) { return keep_nan(v, max(v, zero())); });
    default: break;
  }
  for_vectors(n, [&](int64_t i, int k) {  // any other function, through a vector on the stack: y may be b
    float lanes[kLanes];
    store(lanes, load_some(a + i, k));
    unary(op, lanes, lanes, kLanes);
    store_some(y + i, mul(load(lanes), load_some(b + i, k)), k);
  });
}

}  // namespace kvik::cpu::KVIK_ISA
