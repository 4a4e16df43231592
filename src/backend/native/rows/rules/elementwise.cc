#include <algorithm>

#include "backend/native/rows/rules.h"

// Operators that compute each element from the elements at the same place.
namespace kvik::native {
namespace {

Axes line_up(Step& step) {
  std::vector<Axes> rows;
  for (size_t i = 0; i < step.n_inputs(); ++i) {
    if (step.is_row(i)) rows.push_back(step.axes(i));
  }
  const Axes like = step.broadcast(rows);
  std::vector<Axes> all;
  for (size_t i = 0; i < step.n_inputs(); ++i) {
    if (step.has(i)) all.push_back(step.fitted(i, like));
  }
  return step.broadcast(all);
}

void give_all(Step& step, DType dtype) {
  const Axes axes = line_up(step);
  for (size_t i = 0; i < step.node().outputs.size(); ++i) step.give(i, axes, dtype);
  step.emit();
}

void same_type(Step& step) { give_all(step, step.dtype(0)); }
void gives_bool(Step& step) { give_all(step, DType::kBool); }
void selects(Step& step) { give_all(step, step.dtype(1)); }
void cast(Step& step) { give_all(step, static_cast<DType>(step.node().int_or("to", 1))); }
void like_second(Step& step) {
  step.give(0, step.axes(0), step.dtype(1));
  step.emit();
}

// Only the first output is the value; where it is trained, a mask drops elements at random.
void dropout(Step& step) {
  if (step.has(2)) step.refuse("may drop elements at random");
  step.give(0, step.axes(0), step.dtype(0));
  step.give(1, step.axes(0), DType::kBool);
  step.emit();
}

// Bounds are single numbers.
void clip(Step& step) {
  for (size_t i = 1; i < step.n_inputs(); ++i) {
    if (step.is_row(i)) step.refuse("bounds depend on rows");
  }
  same_type(step);
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
  table.add("Where", selects);
  table.add("Cast", cast);
  table.add("CastLike", like_second);
  table.add("Dropout", dropout);
  table.add("Clip", clip);
}

}  // namespace kvik::native
