#include <cmath>

#include "text/template/filter_tables.h"
#include "text/template/numbers.h"
#include "text/template/operators.h"

namespace kvik::text::jinja {
namespace {

[[noreturn]] void fail_infinite() { fail("cannot convert float infinity to integer"); }

Value to_int(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("int", args, {"default", "base"});
  Value fallback = given[0] == nullptr ? Value::integer(0) : *given[0];
  if (value.is_undefined()) fail("{}", value.why_undefined());
  if (value.is_whole()) return runtime.whole(value.as_big());
  if (value.is(Kind::kFloat)) {
    if (std::isinf(value.as_float())) fail_infinite();
    return std::isnan(value.as_float()) ? fallback : runtime.whole(BigInt::from_double(value.as_float()));
  }
  if (!value.is_text()) return fallback;
  runtime.work(value.as_text().size());
  if (const std::optional<BigInt> whole = parse_whole(value.as_text(), given.integer(1, 10))) return runtime.whole(*whole);
  const std::optional<double> real = parse_real(value.as_text());
  return real && std::isfinite(*real) ? runtime.whole(BigInt::from_double(*real)) : fallback;
}

Value to_float(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("float", args, {"default"});
  Value fallback = given[0] == nullptr ? Value::real(0) : *given[0];
  if (value.is_undefined()) fail("{}", value.why_undefined());
  if (value.is_number()) {
    if (!value.is(Kind::kFloat) && std::isinf(value.to_double())) fail("int too large to convert to float");
    return Value::real(value.to_double());
  }
  if (!value.is_text()) return fallback;
  runtime.work(value.as_text().size());
  const std::optional<double> real = parse_real(value.as_text());
  return real ? Value::real(*real) : fallback;
}

Value absolute(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("abs", args, {});
  if (!value.is_number()) fail("bad operand type for abs(): '{}'", type_name(value));
  if (value.is(Kind::kFloat)) return Value::real(std::fabs(value.as_float()));
  const BigInt whole = value.as_big();
  return runtime.whole(whole.is_negative() ? -whole : whole);
}

Value round(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("round", args, {"precision", "method"});
  const std::string_view method = given.text(1, "common");
  if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  if (!value.is_number()) fail("type {} doesn't define __round__ method", type_name(value));
  if (method == "common") {
    const int64_t digits = given.integer(0, 0);
    if (value.is(Kind::kFloat)) return Value::real(round_real(value.as_float(), digits));
    return runtime.whole(round_whole(value.as_big(), digits));
  }
  const Value power = apply(runtime, BinaryOp::kPower, Value::integer(10), Value::integer(given.integer(0, 0)));
  const double scaled = apply(runtime, BinaryOp::kMultiply, value, power).to_double();
  if (!std::isfinite(scaled)) fail_infinite();
  const double rounded = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return apply(runtime, BinaryOp::kDivide, runtime.whole(BigInt::from_double(rounded)), power);
}

constexpr Named<FilterBody> kNumberFilters[] = {
    {"int", to_int},
    {"float", to_float},
    {"abs", absolute},
    {"round", round},
};

}  // namespace

FilterBody find_number_filter(std::string_view name) { return find_in_table(kNumberFilters, name); }

}  // namespace kvik::text::jinja
