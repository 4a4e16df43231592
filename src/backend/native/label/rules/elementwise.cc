#include <algorithm>
#include <fmt/format.h>

#include "backend/native/label/rules.h"

// Operators that compute each element from the elements at the same place.
namespace kvik::native {
namespace {

Axes line_up(NodeLabeler& op) {
  std::vector<Axes> rows;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    if (op.is_row(i)) rows.push_back(op.axes(i));
  }
  const Axes like = op.broadcast(rows);
  std::vector<Axes> all;
  for (size_t i = 0; i < op.n_inputs(); ++i) {
    if (op.has(i)) all.push_back(op.fitted(i, like));
  }
  return op.broadcast(all);
}

void set_all(NodeLabeler& op, DType dtype) {
  const Axes axes = line_up(op);
  for (size_t i = 0; i < op.node().outputs.size(); ++i) op.set_output(i, axes, dtype);
  op.emit();
}

void same_type(NodeLabeler& op) { set_all(op, op.dtype(0)); }
void gives_bool(NodeLabeler& op) { set_all(op, DType::kBool); }
void selects(NodeLabeler& op) { set_all(op, op.dtype(1)); }
void cast(NodeLabeler& op) { set_all(op, static_cast<DType>(op.node().int_or("to", 1))); }
void like_second(NodeLabeler& op) {
  op.set_output(0, op.axes(0), op.dtype(1));
  op.emit();
}

// Gate and value are not broadcast.
void gated(NodeLabeler& op) {
  const Axes axes = line_up(op);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (op.fitted(i, axes) != axes) op.refuse(fmt::format("gate and value have different axes; together they have {}", to_string(axes)));
  }
  op.set_output(0, axes, op.dtype(0));
  op.emit();
}

// Only the first output is the value; where it is trained, a mask drops elements at random.
void dropout(NodeLabeler& op) {
  if (op.has(2)) op.refuse("may drop elements at random");
  op.set_output(0, op.axes(0), op.dtype(0));
  op.set_output(1, op.axes(0), DType::kBool);
  op.emit();
}

// Bounds are single numbers.
void clip(NodeLabeler& op) {
  for (size_t i = 1; i < op.n_inputs(); ++i) {
    if (op.is_row(i)) op.refuse("bounds depend on rows");
  }
  same_type(op);
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
// Quantised ones have single numbers as scales and zero points.
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
