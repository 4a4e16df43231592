#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"
#include "onnx/eval/ops/elementwise.h"

namespace kvik::onnx {
namespace {

// Integers wrap around; C++ defines that for unsigned types only.
template <class T>
uint64_t bits(T x) {
  return static_cast<uint64_t>(x);
}

struct Add {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a + b;
    return static_cast<T>(bits(a) + bits(b));
  }
};

struct Subtract {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a - b;
    return static_cast<T>(bits(a) - bits(b));
  }
};

struct Multiply {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a * b;
    return static_cast<T>(bits(a) * bits(b));
  }
};

struct Divide {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      require(b != 0, "an integer is divided by zero");
      if constexpr (std::is_signed_v<T>) {
        if (b == T{-1}) return static_cast<T>(uint64_t{0} - bits(a));  // the smallest number overflows otherwise
      }
      return static_cast<T>(a / b);
    }
  }
};

// The remainder with the sign of the dividend, as in C.
struct Remainder {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      require(b != 0, "an integer is divided by zero");
      if constexpr (std::is_signed_v<T>) {
        if (b == T{-1}) return 0;
      }
      return static_cast<T>(a % b);
    }
  }
};

// The remainder with the sign of the divisor, as in Python.
struct Modulus {
  template <class T>
  static T of(T a, T b) {
    const T r = Remainder::of(a, b);
    return r != T{0} && (r < T{0}) != (b < T{0}) ? Add::of(r, b) : r;
  }
};

struct Largest {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
    }
    return a < b ? b : a;
  }
};

struct Smallest {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
    }
    return b < a ? b : a;
  }
};

template <class Op>
Tensor combine(const Tensor& a, const Tensor& b) {
  require_same_dtype(a, b);
  return visit_numeric(a.dtype(), [&]<class T>(Type<T>) { return zip<T, T>(a, b, Op::template of<T>); });
}

template <class Op>
Tensors binary(const KernelCall& call) {
  return {combine<Op>(call.input(0), second_operand(call))};
}

template <class Op>
Tensors variadic(const KernelCall& call) {
  Tensor result = call.input(0);
  for (size_t i = 1; i < call.inputs.size(); ++i) result = combine<Op>(result, call.input(i));
  return {result};
}

Tensors mean(const KernelCall& call) {
  const Tensor sum = variadic<Add>(call)[0];
  const auto n = static_cast<double>(call.inputs.size());
  return {map_floats(sum, [=](double x) { return x / n; })};
}

Tensors modulo(const KernelCall& call) {
  return {call.node.int_or("fmod", 0) != 0 ? combine<Remainder>(call.input(0), call.input(1))
                                           : combine<Modulus>(call.input(0), call.input(1))};
}

template <class T>
T integer_power(T base, T exponent) {
  if (exponent < T{0}) {  // 1/base^n, truncated
    if (base == T{1}) return 1;
    const bool odd = (bits(exponent) & 1u) != 0;
    if constexpr (std::is_signed_v<T>) {
      if (base == T{-1}) return static_cast<T>(odd ? -1 : 1);
    }
    require(base != T{0}, "zero is raised to a negative power");
    return 0;
  }
  uint64_t result = 1;
  uint64_t square = bits(base);
  for (uint64_t left = bits(exponent); left != 0; left >>= 1) {
    if ((left & 1) != 0) result *= square;
    square *= square;
  }
  return static_cast<T>(result);
}

double float_power(double base, double exponent) { return std::pow(base, exponent); }

// The result has the type of the base.
Tensors power(const KernelCall& call) {
  const Tensor& base = call.input(0);
  const Tensor exponent = second_operand(call);
  if (is_integer(base.dtype()) && is_integer(exponent.dtype())) {
    const Tensor same = cast(exponent, base.dtype());
    return {visit_integer(base.dtype(), [&]<class T>(Type<T>) { return zip<T, T>(base, same, integer_power<T>); })};
  }
  return {cast(zip<double, double>(cast(base, DType::kF64), cast(exponent, DType::kF64), float_power), base.dtype())};
}

}  // namespace

void add_binary(KernelTable& table) {
  table.add("Add", in_f32<binary<Add>>);
  table.add("Sub", in_f32<binary<Subtract>>);
  table.add("Mul", in_f32<binary<Multiply>>);
  table.add("Div", in_f32<binary<Divide>>);
  table.add("Max", in_f32<variadic<Largest>>);
  table.add("Mean", in_f32<mean>);
  table.add("Min", in_f32<variadic<Smallest>>);
  table.add("Mod", in_f32<modulo>);
  table.add("Pow", power);
  table.add("Sum", in_f32<variadic<Add>>);
}

}  // namespace kvik::onnx
