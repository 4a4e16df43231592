// Activations without a kernel of their own, expanded into operations that have one.
#include "backend/native/lower/lowering.h"

namespace kvik::native {
namespace {

// Operations on one row value, each of as many elements.
class Speller {
 public:
  Speller(Lowering& lowering, const LowerItem& item) : lowering_(lowering), item_(item), x_(lowering.input(item, 0)) {}

  const Input& x() const { return x_; }
  float attribute(std::string_view name, float otherwise) const { return item_.node.float_or(name, otherwise); }
  Input unary(Unary op, const Input& a) { return lowering_.emit(item_, UnaryOp{op}, {a}, a.size); }
  Input binary(Binary op, const Input& a, const Input& b) { return lowering_.emit(item_, BinaryOp{op}, {a, b}, a.size); }
  Input binary(Binary op, const Input& a, float b) {
    return lowering_.emit(item_, BinaryOp{op, Spread::kAll, Spread::kOne}, {a, number(b)}, a.size);
  }
  // x if the condition holds, else 0.
  Input x_where(const Input& condition) {
    return lowering_.emit(item_, WhereOp{Spread::kAll, Spread::kAll, Spread::kOne}, {condition, x_, number(0.0f)}, x_.size);
  }
  Input clip(const Input& a, float low, float high) { return lowering_.emit(item_, ClipOp{low, high}, {a}, a.size); }

  Input above() { return unary(Unary::kRelu, x_); }         // max(x, 0)
  Input below() { return binary(Binary::kMin, x_, 0.0f); }  // min(x, 0)
  Input exponential(float alpha, float rate) {              // alpha * (exp(rate * min(x, 0)) - 1)
    const Input inside = rate == 1.0f ? below() : binary(Binary::kMul, below(), rate);
    return binary(Binary::kMul, binary(Binary::kSub, unary(Unary::kExp, inside), 1.0f), alpha);
  }

 private:
  Input number(float value) { return {Input::Kind::kConstant, lowering_.plan().add_constant(Tensor::of<float>({1}, {value})), 0, 1}; }

  Lowering& lowering_;
  const LowerItem& item_;
  Input x_;
};

Input hard_sigmoid(Speller& s, float alpha, float beta) {
  return s.clip(s.binary(Binary::kAdd, s.binary(Binary::kMul, s.x(), alpha), beta), 0.0f, 1.0f);
}

Input swish(Speller& s, float alpha) {
  if (alpha == 1.0f) return s.unary(Unary::kSilu, s.x());
  return s.binary(Binary::kMul, s.x(), s.unary(Unary::kSigmoid, s.binary(Binary::kMul, s.x(), alpha)));
}

using Spelling = Input (*)(Speller&);

template <Spelling kSpelling>
bool lower_spelled(Lowering& lowering, const LowerItem& item) {
  if (item.n_inputs() != 1 || lowering.dtype(item, 0) != DType::kF32 || lowering.out_dtype(item) != DType::kF32) return false;
  Speller speller(lowering, item);
  lowering.set(item, 0, kSpelling(speller));
  return true;
}

Input spell_hard_swish(Speller& s) { return s.binary(Binary::kMul, s.x(), hard_sigmoid(s, 1.0f / 6.0f, 0.5f)); }
Input spell_hard_sigmoid(Speller& s) { return hard_sigmoid(s, s.attribute("alpha", 0.2f), s.attribute("beta", 0.5f)); }
Input spell_elu(Speller& s) { return s.binary(Binary::kAdd, s.above(), s.exponential(s.attribute("alpha", 1.0f), 1.0f)); }
Input spell_celu(Speller& s) {
  const float alpha = s.attribute("alpha", 1.0f);
  return s.binary(Binary::kAdd, s.above(), s.exponential(alpha, 1.0f / alpha));
}
Input spell_selu(Speller& s) {
  const Input elu = s.binary(Binary::kAdd, s.above(), s.exponential(s.attribute("alpha", 1.67326319217681884765625f), 1.0f));
  return s.binary(Binary::kMul, elu, s.attribute("gamma", 1.05070102214813232421875f));
}
Input spell_leaky_relu(Speller& s) {
  return s.binary(Binary::kAdd, s.above(), s.binary(Binary::kMul, s.below(), s.attribute("alpha", 0.01f)));
}
Input spell_thresholded_relu(Speller& s) { return s.x_where(s.binary(Binary::kGreater, s.x(), s.attribute("alpha", 1.0f))); }
Input spell_softsign(Speller& s) { return s.binary(Binary::kDiv, s.x(), s.binary(Binary::kAdd, s.unary(Unary::kAbs, s.x()), 1.0f)); }
Input spell_mish(Speller& s) { return s.binary(Binary::kMul, s.x(), s.unary(Unary::kTanh, s.unary(Unary::kSoftplus, s.x()))); }
Input spell_swish(Speller& s) { return swish(s, s.attribute("alpha", 1.0f)); }
Input spell_quick_gelu(Speller& s) { return swish(s, s.attribute("alpha", 1.702f)); }

// A * sigmoid(alpha * A) * B; a fusion makes one op of it.
bool lower_swiglu(Lowering& lowering, const LowerItem& item) {
  if (lowering.dtype(item, 0) != DType::kF32 || lowering.dtype(item, 1) != DType::kF32) return false;
  Speller speller(lowering, item);
  lowering.set(item, 0, speller.binary(Binary::kMul, spell_swish(speller), lowering.input(item, 1)));
  return true;
}

}  // namespace

void add_activation_rules(LowerRules& rules) {
  rules[{"", "HardSwish"}] = lower_spelled<spell_hard_swish>;
  rules[{"", "HardSigmoid"}] = lower_spelled<spell_hard_sigmoid>;
  rules[{"", "Elu"}] = lower_spelled<spell_elu>;
  rules[{"", "Celu"}] = lower_spelled<spell_celu>;
  rules[{"", "Selu"}] = lower_spelled<spell_selu>;
  rules[{"", "LeakyRelu"}] = lower_spelled<spell_leaky_relu>;
  rules[{"", "ThresholdedRelu"}] = lower_spelled<spell_thresholded_relu>;
  rules[{"", "Softsign"}] = lower_spelled<spell_softsign>;
  rules[{"", "Mish"}] = lower_spelled<spell_mish>;
  rules[{"", "Swish"}] = lower_spelled<spell_swish>;
  rules[{"", "SwiGLU"}] = lower_swiglu;
  rules[{"com.microsoft", "QuickGelu"}] = lower_spelled<spell_quick_gelu>;
}

}  // namespace kvik::native
