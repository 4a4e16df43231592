#include "text/template/operators.h"

#include <cmath>

#include "text/template/compare.h"
#include "text/template/format.h"
#include "text/template/print.h"

namespace kvik::text::jinja {
namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void fail_types(BinaryOp op, const Value& left, const Value& right) {
  fail("unsupported operand type(s) for {}: '{}' and '{}'", kSymbols[static_cast<size_t>(op)], type_name(left), type_name(right));
}

[[noreturn]] void fail_zero() { fail("division by zero"); }

Value floor_divide_reals(double a, double b) {
  if (b == 0) fail_zero();
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1.0;
  if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
  const double floored = std::floor(quotient);
  return Value::real(quotient - floored > 0.5 ? floored + 1.0 : floored);
}

Value modulo_reals(double a, double b) {
  if (b == 0) fail_zero();
  double remainder = std::fmod(a, b);
  if (remainder == 0) return Value::real(std::copysign(0.0, b));
  if ((b < 0) != (remainder < 0)) remainder += b;
  return Value::real(remainder);
}

Value power_reals(double a, double b) {
  if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
  if (a < 0 && std::trunc(b) != b && std::isfinite(b))
    fail("a negative number to a fractional power is a complex number, which templates do not support");
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) fail("the result of ** is too large for a float");
  return Value::real(result);
}

double as_real(const Value& value) {
  const double real = value.to_double();
  if (std::isinf(real) && !value.is(Kind::kFloat)) fail("int too large to convert to float");
  return real;
}

Value apply_reals(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd: return Value::real(a + b);
    case BinaryOp::kSubtract: return Value::real(a - b);
    case BinaryOp::kMultiply: return Value::real(a * b);
    case BinaryOp::kDivide:
      if (b == 0) fail_zero();
      return Value::real(a / b);
    case BinaryOp::kFloorDivide: return floor_divide_reals(a, b);
    case BinaryOp::kModulo: return modulo_reals(a, b);
    case BinaryOp::kPower: return power_reals(a, b);
  }
  return {};
}

Value power_whole(Runtime& runtime, const BigInt& base, const BigInt& exponent) {
  if (exponent.is_negative()) {
    if (base.is_zero()) fail("0.0 cannot be raised to a negative power");
    return power_reals(base.to_double(), exponent.to_double());
  }
  const std::optional<int64_t> small = exponent.to_int64();
  if (!small && base.bits() > 1) throw Fault(Code::kTooLarge, "the result of ** is too large a whole number");
  const uint64_t times = small ? static_cast<uint64_t>(*small) : 2 + (exponent.divide(BigInt(2)).remainder.is_zero() ? 0 : 1);
  runtime.work(BigInt::kMaxBits / 8);
  return runtime.whole(base.power(times));
}

// Correctly rounded, even if the operands are out of range of double.
Value divide_whole(const Value& left, const Value& right) {
  constexpr int64_t kExact = int64_t{1} << 53;
  const auto fits = [](const Value& v) { return !v.is(Kind::kBigInt) && v.as_int() <= kExact && v.as_int() >= -kExact; };
  if (fits(left) && fits(right)) return Value::real(static_cast<double>(left.as_int()) / static_cast<double>(right.as_int()));
  const BigInt a = left.as_big(), b = right.as_big();
  if (a.is_zero()) return Value::real(b.is_negative() ? -0.0 : 0.0);
  // A quotient of at least 65 bits with a sticky last bit, which rounds correctly.
  const auto shift = static_cast<int64_t>(b.bits()) - static_cast<int64_t>(a.bits()) + 66;
  const BigInt magnitude = a.is_negative() ? -a : a, divisor = b.is_negative() ? -b : b;
  const BigInt scaled = shift > 0 ? magnitude * BigInt(2).power(static_cast<uint64_t>(shift)) : magnitude;
  const BigInt scaled_divisor = shift < 0 ? divisor * BigInt(2).power(static_cast<uint64_t>(-shift)) : divisor;
  const BigInt::Division division = scaled.divide(scaled_divisor);
  const BigInt sticky = division.quotient * BigInt(2) + BigInt(division.remainder.is_zero() ? 0 : 1);
  const double result = std::ldexp(sticky.to_double(), static_cast<int>(-shift - 1));
  if (std::isinf(result)) fail("integer division result too large for a float");
  return Value::real(a.is_negative() != b.is_negative() ? -result : result);
}

Value apply_big(Runtime& runtime, BinaryOp op, const Value& left, const Value& right) {
  const BigInt a = left.as_big(), b = right.as_big();
  runtime.step(static_cast<int64_t>((a.bits() + 32) * (b.bits() + 32) / 32768));
  switch (op) {
    case BinaryOp::kAdd: return runtime.whole(a + b);
    case BinaryOp::kSubtract: return runtime.whole(a - b);
    case BinaryOp::kMultiply: return runtime.whole(a * b);
    case BinaryOp::kDivide: return divide_whole(left, right);
    case BinaryOp::kFloorDivide:
    case BinaryOp::kModulo: {
      runtime.step(static_cast<int64_t>(a.bits() * b.bits() / 2048));
      const BigInt::Division division = a.divide(b);
      return runtime.whole(op == BinaryOp::kModulo ? division.remainder : division.quotient);
    }
    case BinaryOp::kPower: return power_whole(runtime, a, b);
  }
  return {};
}

Value apply_whole(Runtime& runtime, BinaryOp op, const Value& left, const Value& right) {
  const bool divides = op == BinaryOp::kDivide || op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo;
  if (divides && !right.is(Kind::kBigInt) && right.as_int() == 0) fail_zero();
  if (op == BinaryOp::kDivide) return divide_whole(left, right);
  if (left.is(Kind::kBigInt) || right.is(Kind::kBigInt)) return apply_big(runtime, op, left, right);
  const int64_t a = left.as_int(), b = right.as_int();
  int64_t result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (!__builtin_add_overflow(a, b, &result)) return Value::integer(result);
      break;
    case BinaryOp::kSubtract:
      if (!__builtin_sub_overflow(a, b, &result)) return Value::integer(result);
      break;
    case BinaryOp::kMultiply:
      if (!__builtin_mul_overflow(a, b, &result)) return Value::integer(result);
      break;
    case BinaryOp::kFloorDivide:
      if (b == -1) break;
      return Value::integer(a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0));
    case BinaryOp::kModulo:
      if (b == -1) return Value::integer(0);
      return Value::integer(a % b + ((a % b != 0 && (a < 0) != (b < 0)) ? b : 0));
    default: break;
  }
  return apply_big(runtime, op, left, right);
}

Value add_texts(Runtime& runtime, const Value& left, const Value& right) {
  runtime.check_room(left.as_text().size() + right.as_text().size());
  const bool a = left.text_cell().is_markup, b = right.text_cell().is_markup;
  if (a == b) return runtime.text(left.as_text() + right.as_text(), a);
  return runtime.text((a ? left.as_text() : escape_html(left.as_text())) + (b ? right.as_text() : escape_html(right.as_text())), true);
}

Value add_sequences(Runtime& runtime, const Value& left, const Value& right) {
  const std::vector<Value>&a = left.as_items(), &b = right.as_items();
  runtime.check_room((a.size() + b.size()) * sizeof(Value));
  std::vector<Value> all;
  all.reserve(a.size() + b.size());
  all.insert(all.end(), a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return left.is(Kind::kList) ? runtime.list(std::move(all)) : runtime.tuple(std::move(all));
}

Value repeat(Runtime& runtime, const Value& value, int64_t times) {
  const auto n = static_cast<size_t>(std::max<int64_t>(times, 0));
  const size_t unit = value.is_text() ? value.as_text().size() : value.as_items().size() * sizeof(Value);
  if (unit != 0 && n > runtime.limits().memory_bytes / unit) runtime.check_room(runtime.limits().memory_bytes + 1);
  runtime.check_room(unit * n);
  if (value.is_text()) {
    std::string text;
    if (unit != 0) text.reserve(unit * n);
    for (size_t i = 0; unit != 0 && i < n; ++i) text += value.as_text();
    return runtime.text(std::move(text), value.text_cell().is_markup);
  }
  std::vector<Value> all;
  all.reserve(value.as_items().size() * n);
  for (size_t i = 0; unit != 0 && i < n; ++i) all.insert(all.end(), value.as_items().begin(), value.as_items().end());
  return value.is(Kind::kList) ? runtime.list(std::move(all)) : runtime.tuple(std::move(all));
}

bool is_repeatable(const Value& value) { return value.is_text() || value.is_sequence(); }

}  // namespace

Value apply(Runtime& runtime, BinaryOp op, const Value& left, const Value& right) {
  if (left.is_whole() && right.is_whole()) return apply_whole(runtime, op, left, right);
  if (left.is_number() && right.is_number()) return apply_reals(op, as_real(left), as_real(right));
  if (op == BinaryOp::kModulo && left.is_text()) return runtime.text(format_percent(runtime, left, right), left.text_cell().is_markup);
  if (left.is_undefined()) fail("{}", left.why_undefined());
  if (right.is_undefined()) fail("{}", right.why_undefined());
  if (op == BinaryOp::kAdd) {
    if (left.is_text() && right.is_text()) return add_texts(runtime, left, right);
    if (left.is_sequence() && left.kind() == right.kind()) return add_sequences(runtime, left, right);
    if (left.is_text() || left.is_sequence())
      fail("can only concatenate {} (not \"{}\") to {}", type_name(left), type_name(right), type_name(left));
  }
  if (op == BinaryOp::kMultiply) {
    const bool is_left = is_repeatable(left) && right.is_whole(), is_right = is_repeatable(right) && left.is_whole();
    if ((is_left ? right : left).is(Kind::kBigInt) && (is_left || is_right)) fail("cannot fit 'int' into an index-sized integer");
    if (is_left || is_right) return repeat(runtime, is_left ? left : right, (is_left ? right : left).as_int());
  }
  fail_types(op, left, right);
}

Value apply_sign(Runtime& runtime, char sign, const Value& operand) {
  if (operand.is_undefined()) fail("{}", operand.why_undefined());
  if (!operand.is_number()) fail("bad operand type for unary {}: '{}'", sign, type_name(operand));
  if (operand.is(Kind::kFloat)) return Value::real(sign == '-' ? -operand.as_float() : operand.as_float());
  return runtime.whole(sign == '-' ? -operand.as_big() : operand.as_big());
}

bool compare(Runtime& runtime, CompareOp op, const Value& left, const Value& right) {
  const auto ordered = [&](std::string_view symbol) { return order(left, right, symbol, runtime.steps_left()); };
  switch (op) {
    case CompareOp::kEqual: return equal(left, right, runtime.steps_left());
    case CompareOp::kNotEqual: return !equal(left, right, runtime.steps_left());
    case CompareOp::kLess: return ordered("<") == Order::kLess;
    case CompareOp::kGreater: return ordered(">") == Order::kGreater;
    case CompareOp::kLessEqual: {
      const Order result = ordered("<=");
      return result == Order::kLess || result == Order::kEqual;
    }
    case CompareOp::kGreaterEqual: {
      const Order result = ordered(">=");
      return result == Order::kGreater || result == Order::kEqual;
    }
    case CompareOp::kIn: return contains(runtime, right, left);
    case CompareOp::kNotIn: return !contains(runtime, right, left);
  }
  return false;
}

}  // namespace kvik::text::jinja
