#include <array>
#include <limits>

#include "backend/native/lower/lowering.h"

namespace kvik::native {
namespace {

bool is_float_input(const Lowering& lowering, const LowerItem& item, size_t i) {
  return item.has(i) && lowering.dtype(item, i) == DType::kF32;
}

// How an operand of dims `from` meets the output's; groups as the spread needs them, 0 if any number will do.
struct Fit {
  Spread spread = Spread::kAll;
  int64_t groups = 0;
};

std::optional<Fit> fit(const Dims& from, const Dims& to) {
  const int64_t n = element_count(to), m = element_count(from);
  if (m == n) return Fit{};
  if (m == 1) return Fit{Spread::kOne, 0};
  Dims aligned(to.size() - from.size(), 1);
  aligned.insert(aligned.end(), from.begin(), from.end());
  size_t first = 0, last = to.size();  // axes on which it is not broadcast, ones of the output aside
  while (first < to.size() && (aligned[first] == 1)) ++first;
  while (last > 0 && aligned[last - 1] == 1) --last;
  const auto product = [&](size_t begin, size_t end) { return element_count(std::span<const int64_t>(to).subspan(begin, end - begin)); };
  if (product(first, last) != m) return std::nullopt;  // a hole inside
  if (product(last, to.size()) == 1) return Fit{Spread::kEvery, n / m};
  if (product(0, first) == 1) return Fit{Spread::kPerGroup, m};
  return std::nullopt;
}

// Operands fitted to the output, those that do not fit together spread out by a move.
struct Fitted {
  std::vector<Input> in;
  std::array<Spread, 3> spread{};
  int64_t groups = 1;
};

Fitted fit_all(Lowering& lowering, const LowerItem& item, const std::vector<size_t>& operands, const Dims& to) {
  Fitted fitted;
  int64_t groups = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Dims from = lowering.dims(item, operands[i]);
    Input x = lowering.input(item, operands[i]);
    std::optional<Fit> found = fit(from, to);
    if (found && found->groups != 0 && groups != 0 && found->groups != groups) found.reset();
    if (!found) {
      x = lowering.broadcast(item, x, from, to, DType::kF32);
      found = Fit{};
    }
    if (found->groups != 0) groups = found->groups;
    fitted.in.push_back(x);
    fitted.spread[i] = found->spread;
  }
  fitted.groups = groups == 0 ? 1 : groups;
  return fitted;
}

bool lower_unary(Lowering& lowering, const LowerItem& item, Unary op) {
  if (!is_plan_float(lowering.dtype(item, 0)) || !is_plan_float(lowering.out_dtype(item))) return false;
  const Input x = lowering.input(item, 0);
  lowering.set(item, 0, lowering.emit(item, UnaryOp{op}, {x}, x.size));
  return true;
}

bool lower_binary(Lowering& lowering, const LowerItem& item, Binary op) {
  if (!is_plan_float(lowering.dtype(item, 0)) || !is_plan_float(lowering.dtype(item, 1))) return false;
  const Dims to = lowering.out_dims(item);
  Fitted f = fit_all(lowering, item, {0, 1}, to);
  lowering.set(item, 0, lowering.emit(item, BinaryOp{op, f.spread[0], f.spread[1], f.groups}, std::move(f.in), element_count(to)));
  return true;
}

template <Unary kOp>
bool unary(Lowering& lowering, const LowerItem& item) {
  return lower_unary(lowering, item, kOp);
}

template <Binary kOp>
bool binary(Lowering& lowering, const LowerItem& item) {
  if (item.n_inputs() != 2) return false;
  return lower_binary(lowering, item, kOp);
}

// Sum, Min and Max take any number of operands.
template <Binary kOp>
bool chain(Lowering& lowering, const LowerItem& item) {
  if (item.n_inputs() == 2) return lower_binary(lowering, item, kOp);
  const int64_t n = element_count(lowering.out_dims(item));
  for (size_t i = 0; i < item.n_inputs(); ++i) {
    if (!is_float_input(lowering, item, i) || element_count(lowering.dims(item, i)) != n) return false;
  }
  Input all = lowering.input(item, 0);
  for (size_t i = 1; i < item.n_inputs(); ++i) all = lowering.emit(item, BinaryOp{kOp}, {all, lowering.input(item, i)}, n);
  lowering.set(item, 0, all);
  return true;
}

bool lower_pow(Lowering& lowering, const LowerItem& item) {
  if (!is_float_input(lowering, item, 0)) return false;
  const Tensor exponent = lowering.constant(item, 1);
  const bool single = exponent.defined() && exponent.size() == 1;
  const float power = !single                           ? 0.0f
                      : exponent.dtype() == DType::kF32 ? exponent.data<float>()[0]
                      : exponent.dtype() == DType::kI64 ? static_cast<float>(exponent.data<int64_t>()[0])
                      : exponent.dtype() == DType::kI32 ? static_cast<float>(exponent.data<int32_t>()[0])
                                                        : 0.0f;
  if (power == 2.0f && lowering.out_dims(item) == lowering.dims(item, 0)) return lower_unary(lowering, item, Unary::kSquare);
  return lower_binary(lowering, item, Binary::kPow);
}

bool lower_is_nan(Lowering& lowering, const LowerItem& item) {
  if (!is_float_input(lowering, item, 0)) return false;
  const Input x = lowering.input(item, 0);
  lowering.set(item, 0, lowering.emit(item, BinaryOp{Binary::kNotEqual}, {x, x}, x.size));
  return true;
}

bool lower_cast(Lowering& lowering, const LowerItem& item) {
  const DType from = lowering.dtype(item, 0), to = lowering.out_dtype(item);
  if (from == to || (from == DType::kBool && to == DType::kF32)) {
    lowering.set(item, 0, lowering.input(item, 0));
    return true;
  }
  if (from != DType::kF32 || to != DType::kBool) return false;
  const Input x = lowering.input(item, 0);
  const int zero = lowering.plan().add_constant(Tensor::of<float>({1}, {0.0f}));
  const Input none{Input::Kind::kConstant, zero, 0, 1};
  lowering.set(item, 0, lowering.emit(item, BinaryOp{Binary::kNotEqual, Spread::kAll, Spread::kOne}, {x, none}, x.size));
  return true;
}

bool lower_clip(Lowering& lowering, const LowerItem& item) {
  if (!is_float_input(lowering, item, 0)) return false;
  ClipOp clip{item.node.float_or("min", std::numeric_limits<float>::lowest()),
              item.node.float_or("max", std::numeric_limits<float>::max())};
  if (!item.node.has("min")) clip.low = -std::numeric_limits<float>::infinity();
  if (!item.node.has("max")) clip.high = std::numeric_limits<float>::infinity();
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (!item.has(i)) continue;
    const Tensor bound = lowering.constant(item, i);
    if (!bound.defined() || bound.size() != 1 || bound.dtype() != DType::kF32) return false;
    (i == 1 ? clip.low : clip.high) = bound.data<float>()[0];
  }
  const Input x = lowering.input(item, 0);
  lowering.set(item, 0, lowering.emit(item, clip, {x}, x.size));
  return true;
}

bool lower_where(Lowering& lowering, const LowerItem& item) {
  if (!is_plan_float(lowering.out_dtype(item))) return false;
  const Dims to = lowering.out_dims(item);
  Fitted f = fit_all(lowering, item, {0, 1, 2}, to);
  lowering.set(item, 0, lowering.emit(item, WhereOp{f.spread[0], f.spread[1], f.spread[2], f.groups}, std::move(f.in), element_count(to)));
  return true;
}

bool lower_gelu(Lowering& lowering, const LowerItem& item) {
  return lower_unary(lowering, item, item.node.string_or("approximate", "none") == "tanh" ? Unary::kGeluTanh : Unary::kGeluErf);
}

// Gelu of a sum with a bias; the bias may be left out.
template <Unary kOp>
bool lower_bias_gelu(Lowering& lowering, const LowerItem& item) {
  if (!item.has(1)) return lower_unary(lowering, item, kOp);
  const Dims to = lowering.out_dims(item);
  Fitted f = fit_all(lowering, item, {0, 1}, to);
  const Input sum = lowering.emit(item, BinaryOp{Binary::kAdd, f.spread[0], f.spread[1], f.groups}, std::move(f.in), element_count(to));
  lowering.set(item, 0, lowering.emit(item, UnaryOp{kOp}, {sum}, sum.size));
  return true;
}

bool lower_mod(Lowering& lowering, const LowerItem& item) {
  return item.node.int_or("fmod", 0) == 0 && lower_binary(lowering, item, Binary::kMod);
}

void add_unary_rules(LowerRules& rules) {
  rules[{"", "Neg"}] = unary<Unary::kNeg>;
  rules[{"", "Abs"}] = unary<Unary::kAbs>;
  rules[{"", "Sqrt"}] = unary<Unary::kSqrt>;
  rules[{"", "Reciprocal"}] = unary<Unary::kReciprocal>;
  rules[{"", "Exp"}] = unary<Unary::kExp>;
  rules[{"", "Log"}] = unary<Unary::kLog>;
  rules[{"", "Tanh"}] = unary<Unary::kTanh>;
  rules[{"", "Erf"}] = unary<Unary::kErf>;
  rules[{"", "Sigmoid"}] = unary<Unary::kSigmoid>;
  rules[{"", "Relu"}] = unary<Unary::kRelu>;
  rules[{"", "Softplus"}] = unary<Unary::kSoftplus>;
  rules[{"", "Sin"}] = unary<Unary::kSin>;
  rules[{"", "Cos"}] = unary<Unary::kCos>;
  rules[{"", "Floor"}] = unary<Unary::kFloor>;
  rules[{"", "Ceil"}] = unary<Unary::kCeil>;
  rules[{"", "Round"}] = unary<Unary::kRound>;
  rules[{"", "Sign"}] = unary<Unary::kSign>;
  rules[{"", "Not"}] = unary<Unary::kNot>;
  rules[{"", "IsNaN"}] = lower_is_nan;
  rules[{"", "Gelu"}] = lower_gelu;
  rules[{"com.microsoft", "Gelu"}] = unary<Unary::kGeluErf>;
  rules[{"com.microsoft", "FastGelu"}] = lower_bias_gelu<Unary::kGeluTanh>;
  rules[{"com.microsoft", "BiasGelu"}] = lower_bias_gelu<Unary::kGeluErf>;
}

void add_binary_rules(LowerRules& rules) {
  rules[{"", "Add"}] = binary<Binary::kAdd>;
  rules[{"", "Sub"}] = binary<Binary::kSub>;
  rules[{"", "Mul"}] = binary<Binary::kMul>;
  rules[{"", "Div"}] = binary<Binary::kDiv>;
  rules[{"", "Sum"}] = chain<Binary::kAdd>;
  rules[{"", "Min"}] = chain<Binary::kMin>;
  rules[{"", "Max"}] = chain<Binary::kMax>;
  rules[{"", "Mod"}] = lower_mod;
  rules[{"", "Pow"}] = lower_pow;
  rules[{"", "Less"}] = binary<Binary::kLess>;
  rules[{"", "LessOrEqual"}] = binary<Binary::kLessEqual>;
  rules[{"", "Greater"}] = binary<Binary::kGreater>;
  rules[{"", "GreaterOrEqual"}] = binary<Binary::kGreaterEqual>;
  rules[{"", "Equal"}] = binary<Binary::kEqual>;
  rules[{"", "And"}] = binary<Binary::kAnd>;
  rules[{"", "Or"}] = binary<Binary::kOr>;
  rules[{"", "Xor"}] = binary<Binary::kXor>;
}

}  // namespace

void add_elementwise_rules(LowerRules& rules) {
  add_unary_rules(rules);
  add_binary_rules(rules);
  rules[{"", "Cast"}] = lower_cast;
  rules[{"", "Clip"}] = lower_clip;
  rules[{"", "Where"}] = lower_where;
}

}  // namespace kvik::native
