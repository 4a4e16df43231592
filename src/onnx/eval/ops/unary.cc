#include <cmath>
#include <limits>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/elementwise.h"

namespace kvik::onnx {
namespace {

template <double (*kF)(double)>
Tensors floats(const KernelCall& call) {
  return {map_floats(call.input(0), kF)};
}

double reciprocal(double x) { return 1.0 / x; }
double sign_of(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
double negated(double x) { return -x; }

template <class T, class F>
Tensor map_integers(const Tensor& x, F f) {
  Tensor result(x.dtype(), x.dims());
  const auto from = x.data<T>();
  const auto to = result.mutable_data<T>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = f(from[i]);
  return result;
}

// The smallest integer has no positive counterpart and stays unchanged (two's complement).
template <class T>
T wrapped_negative(T x) {
  return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
}

Tensors absolute(const KernelCall& call) {
  const Tensor& x = call.input(0);
  if (is_float(x.dtype())) return {map_floats(x, [](double v) { return std::fabs(v); })};
  return {visit_integer(x.dtype(),
                        [&]<class T>(Type<T>) { return map_integers<T>(x, [](T v) { return v < T{0} ? wrapped_negative(v) : v; }); })};
}

Tensors negative(const KernelCall& call) {
  const Tensor& x = call.input(0);
  if (is_float(x.dtype())) return {map_floats(x, negated)};
  return {visit_integer(x.dtype(), [&]<class T>(Type<T>) { return map_integers<T>(x, wrapped_negative<T>); })};
}

Tensors sign(const KernelCall& call) {
  const Tensor& x = call.input(0);
  if (is_float(x.dtype())) return {map_floats(x, sign_of)};
  return {visit_integer(x.dtype(), [&]<class T>(Type<T>) {
    return map_integers<T>(x, [](T v) { return static_cast<T>(v > T{0} ? 1 : v < T{0} ? -1 : 0); });
  })};
}

Tensors bitwise_not(const KernelCall& call) {
  const Tensor& x = call.input(0);
  return {visit_integer(x.dtype(), [&]<class T>(Type<T>) { return map_integers<T>(x, [](T v) { return static_cast<T>(~v); }); })};
}

Tensors logical_not(const KernelCall& call) {
  return {map_integers<bool>(call.input(0), [](bool v) { return !v; })};
}

Tensors classify(const Tensor& x, const std::function<bool(double)>& f) {
  const Tensor wide = widened(x);
  Tensor result(DType::kBool, wide.dims());
  visit_float(wide.dtype(), [&]<class T>(Type<T>) {
    const auto from = wide.data<T>();
    const auto to = result.mutable_data<bool>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = f(static_cast<double>(from[i]));
  });
  return {result};
}

Tensors is_nan(const KernelCall& call) {
  return classify(call.input(0), [](double x) { return std::isnan(x); });
}

Tensors is_inf(const KernelCall& call) {
  const bool positive = call.node.int_or("detect_positive", 1) != 0;
  const bool negative_too = call.node.int_or("detect_negative", 1) != 0;
  return classify(call.input(0), [=](double x) { return std::isinf(x) && (x > 0 ? positive : negative_too); });
}

template <class T>
Tensor clip_to(const Tensor& x, T low, T high) {
  return map_integers<T>(x, [=](T v) {
    const T raised = v < low ? low : v;  // NaN passes unchanged
    return high < raised ? high : raised;
  });
}

Tensors clip(const KernelCall& call) {
  const Tensor& x = call.input(0);
  return {visit_numeric(x.dtype(), [&]<class T>(Type<T>) {
    constexpr bool kFloat = std::is_floating_point_v<T>;
    T low = kFloat ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    T high = kFloat ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
    if (call.node.opset < 11) {  // only floats, and attributes
      if (call.node.has("min")) low = static_cast<T>(call.node.float_or("min", 0));
      if (call.node.has("max")) high = static_cast<T>(call.node.float_or("max", 0));
      return clip_to<T>(x, low, high);
    }
    const auto bound = [&](size_t i, T absent) {
      if (!call.has(i)) return absent;
      require(call.input(i).size() == 1, "found a bound of shape {}; expected one number", to_string(call.input(i).dims()));
      return call.input(i).data<T>()[0];
    };
    return clip_to<T>(x, bound(1, low), bound(2, high));
  })};
}

}  // namespace

void add_unary(KernelTable& table) {
  table.add("Abs", absolute);
  table.add("Acos", floats<std::acos>);
  table.add("Acosh", floats<std::acosh>);
  table.add("Asin", floats<std::asin>);
  table.add("Asinh", floats<std::asinh>);
  table.add("Atan", floats<std::atan>);
  table.add("Atanh", floats<std::atanh>);
  table.add("BitwiseNot", bitwise_not);
  table.add("Ceil", floats<std::ceil>);
  table.add("Clip", in_f32<clip>);
  table.add("Cos", floats<std::cos>);
  table.add("Cosh", floats<std::cosh>);
  table.add("Erf", floats<std::erf>);
  table.add("Exp", floats<std::exp>);
  table.add("Floor", floats<std::floor>);
  table.add("IsInf", is_inf);
  table.add("IsNaN", is_nan);
  table.add("Log", floats<std::log>);
  table.add("Neg", negative);
  table.add("Not", logical_not);
  table.add("Reciprocal", floats<reciprocal>);
  table.add("Round", floats<std::nearbyint>);  // halves to even
  table.add("Sign", sign);
  table.add("Sin", floats<std::sin>);
  table.add("Sinh", floats<std::sinh>);
  table.add("Sqrt", floats<std::sqrt>);
  table.add("Tan", floats<std::tan>);
  table.add("Tanh", floats<std::tanh>);
}

}  // namespace kvik::onnx
