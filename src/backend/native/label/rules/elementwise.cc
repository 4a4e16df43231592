#include <fmt/format.h>

#include "backend/native/label/rules.h"

// Operators that compute each element from the elements at the same place.
namespace kvik::native {
namespace {

// What is added to scores may line up with them only if there is no past, or one new token: a mask among new tokens. Probing finds out
// at which sizes the graph defines it.
bool fits_without_past(NodeLabeler& op, const Axes& fitted, const Axes& scores) {
  const FlatGraph& flat = op.labeler().flat();
  if (!op.any_score() || op.one_token() || !flat.has_past || flat.buffer > 0 || fitted.size() > scores.size()) return false;
  bool is_among_new = false;
  for (size_t i = 0; i < fitted.size(); ++i) {
    const Axis& axis = fitted[i];
    const Axis& scored = scores[scores.size() - fitted.size() + i];
    const bool new_for_total = axis == Axis{factor(Symbol::kNew)} && scored == Axis{factor(Symbol::kTotal)};
    if (!axis.empty() && axis != scored && !new_for_total) return false;
    is_among_new = is_among_new || new_for_total;
  }
  return is_among_new;
}

Expected<Axes> line_up(NodeLabeler& op) {
  std::vector<Axes> rows;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    if (op.is_row(i)) rows.push_back(op.label(i).axes);
  }
  KVIK_TRY(const Axes like, op.broadcast(rows));
  std::vector<Axes> all;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    if (!op.has(i)) continue;
    KVIK_TRY(Axes fitted, op.fitted(i, like));
    if (!op.is_row(i) && fits_without_past(op, fitted, like)) continue;
    all.push_back(std::move(fitted));
  }
  return op.broadcast(all);
}

Expected<> set_all(NodeLabeler& op, const Expected<DType>& dtype) {
  KVIK_TRY(const Axes axes, line_up(op));
  for (size_t i = 0; i < op.node().outputs.size(); ++i) KVIK_CHECK(op.set_output(i, axes, dtype));
  op.emit();
  return {};
}

Expected<> same_type(NodeLabeler& op) { return set_all(op, op.dtype(0)); }
Expected<> gives_bool(NodeLabeler& op) { return set_all(op, DType::kBool); }
Expected<> selects(NodeLabeler& op) { return set_all(op, op.dtype(1)); }
Expected<> cast(NodeLabeler& op) { return set_all(op, static_cast<DType>(op.node().int_or("to", 1))); }
Expected<> like_second(NodeLabeler& op) { return op.emit_with(op.axes(0), op.dtype(1)); }

// Gate and value are not broadcast.
Expected<> gated(NodeLabeler& op) {
  KVIK_TRY(const Axes axes, line_up(op));
  for (const size_t i : {size_t{0}, size_t{1}}) {
    KVIK_TRY(const Axes fitted, op.fitted(i, axes));
    if (fitted != axes) return op.refuse(fmt::format("gate and value have different axes; together they have {}", to_string(axes)));
  }
  return op.emit_with(axes, op.dtype(0));
}

// Only the first output is the value; where it is trained, a mask drops elements at random.
Expected<> dropout(NodeLabeler& op) {
  if (op.has(2)) return op.refuse("may drop elements at random");
  KVIK_CHECK(op.set_output(1, op.axes(0), DType::kBool));
  return op.emit_with(op.axes(0), op.dtype(0));
}

// Bounds are single numbers.
Expected<> clip(NodeLabeler& op) {
  for (size_t i = 1; i < op.n_inputs(); ++i) {
    if (op.is_row(i)) return op.refuse("bounds depend on rows");
  }
  return same_type(op);
}

constexpr std::string_view kSameType[] = {
    "Add",         "Sub",       "Mul",   "Div",      "Pow",        "Mod",        "Min",        "Max",        "Sum",
    "Mean",        "Neg",       "Abs",   "Sqrt",     "Exp",        "Log",        "Sin",        "Cos",        "Tan",
    "Tanh",        "Sigmoid",   "Erf",   "Relu",     "Elu",        "Selu",       "Celu",       "LeakyRelu",  "ThresholdedRelu",
    "HardSigmoid", "HardSwish", "Mish",  "Softplus", "Softsign",   "Reciprocal", "Floor",      "Ceil",       "Round",
    "Sign",        "Gelu",      "Swish", "Identity", "BitwiseAnd", "BitwiseOr",  "BitwiseXor", "BitwiseNot", "BitShift",
    "PRelu",       "Sinh",      "Cosh",  "Asin",     "Acos",       "Atan",       "Asinh",      "Acosh",      "Atanh"};
constexpr std::string_view kBool[] = {"And",  "Or",          "Xor",   "Not",  "Equal", "Greater", "GreaterOrEqual",
                                      "Less", "LessOrEqual", "IsNaN", "IsInf"};
// Quantized ones have single numbers as scales and zero points.
constexpr std::string_view kMicrosoftSameType[] = {"Gelu",       "FastGelu",   "BiasGelu",       "QuickGelu",
                                                   "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu"};

}  // namespace

void add_elementwise_rules(RuleTable& table) {
  for (const std::string_view op : kSameType) table.add(op, same_type);
  for (const std::string_view op : kBool) table.add(op, gives_bool);
  for (const std::string_view op : kMicrosoftSameType) table.add(kMicrosoft, op, same_type);
  table.add("SwiGLU", gated);
  table.add("Where", selects);
  table.add("Cast", cast);
  table.add("CastLike", like_second);
  table.add("Dropout", dropout);
  table.add("Clip", clip);
}

}  // namespace kvik::native
