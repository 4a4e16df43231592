#include "text/template/compare.h"
#include "text/template/filters.h"
#include "text/template/operators.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

// Tests without arguments.
void take_none(const Args& args) { const Parameters none("this test", args, {}); }

template <bool (*kHolds)(const Value&)>
bool plain(Runtime&, const Value& value, const Args& args) {
  take_none(args);
  return kHolds(value);
}

template <CompareOp kOp>
bool compares(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("this test", args, {"other"}, 1);
  return compare(runtime, kOp, value, given.required(0));
}

bool divides(Runtime& runtime, const Value& value, const Value& divisor) {
  return equal(apply(runtime, BinaryOp::kModulo, value, divisor), Value::integer(0), runtime.steps_left());
}

bool odd(Runtime& runtime, const Value& value, const Args& args) {
  take_none(args);
  return equal(apply(runtime, BinaryOp::kModulo, value, Value::integer(2)), Value::integer(1), runtime.steps_left());
}

bool even(Runtime& runtime, const Value& value, const Args& args) {
  take_none(args);
  return divides(runtime, value, Value::integer(2));
}

bool divisibleby(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("divisibleby", args, {"num"}, 1);
  return divides(runtime, value, given.required(0));
}

bool sequence(Runtime& runtime, const Value& value, const Args& args) {
  take_none(args);
  if (value.is(Kind::kObject)) return value.as_object().has_items() && value.as_object().length(runtime).has_value();
  return try_length(runtime, value).has_value();
}

bool iterable(Runtime& runtime, const Value& value, const Args& args) {
  take_none(args);
  return try_iterate(runtime, value) != nullptr;
}

bool callable(Runtime&, const Value& value, const Args& args) {
  take_none(args);
  return value.is_undefined() || (value.is(Kind::kObject) && value.as_object().is_callable());
}

bool sameas(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("sameas", args, {"other"}, 1);
  const Value& other = given.required(0);
  if (value.kind() != other.kind()) return false;
  if (value.cell() == nullptr && !value.is(Kind::kFloat)) return equal(value, other, runtime.steps_left());
  return value.cell() != nullptr && value.cell() == other.cell();
}

template <bool (*kWanted)(char32_t), bool (*kOther)(char32_t)>
bool has_case(Runtime& runtime, const Value& value, const Args& args) {
  take_none(args);
  const std::string text = printed(runtime, value);
  runtime.work(8 * text.size());
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t point = next_point(text, at);
    if (kOther(point) || is_title(point)) return false;
    found |= kWanted(point);
  }
  return found;
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is(Kind::kBool); }
bool is_false(const Value& value) { return value.is(Kind::kBool) && !value.as_bool(); }
bool is_true(const Value& value) { return value.is(Kind::kBool) && value.as_bool(); }
bool is_integer(const Value& value) { return value.is_whole() && !value.is(Kind::kBool); }
bool is_float(const Value& value) { return value.is(Kind::kFloat); }
bool is_text(const Value& value) { return value.is_text(); }
bool is_mapping(const Value& value) { return value.is(Kind::kDict); }
bool is_number(const Value& value) { return value.is_number(); }

constexpr Named<TestBody> kTests[] = {
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisibleby},
    {"defined", plain<is_defined>},
    {"undefined", plain<is_undefined>},
    {"none", plain<is_none>},
    {"boolean", plain<is_boolean>},
    {"false", plain<is_false>},
    {"true", plain<is_true>},
    {"integer", plain<is_integer>},
    {"float", plain<is_float>},
    {"lower", has_case<is_lower, is_upper>},
    {"upper", has_case<is_upper, is_lower>},
    {"string", plain<is_text>},
    {"mapping", plain<is_mapping>},
    {"number", plain<is_number>},
    {"sequence", sequence},
    {"iterable", iterable},
    {"callable", callable},
    {"sameas", sameas},
    {"in", compares<CompareOp::kIn>},
    {"==", compares<CompareOp::kEqual>},
    {"eq", compares<CompareOp::kEqual>},
    {"equalto", compares<CompareOp::kEqual>},
    {"!=", compares<CompareOp::kNotEqual>},
    {"ne", compares<CompareOp::kNotEqual>},
    {">", compares<CompareOp::kGreater>},
    {"gt", compares<CompareOp::kGreater>},
    {"greaterthan", compares<CompareOp::kGreater>},
    {">=", compares<CompareOp::kGreaterEqual>},
    {"ge", compares<CompareOp::kGreaterEqual>},
    {"<", compares<CompareOp::kLess>},
    {"lt", compares<CompareOp::kLess>},
    {"lessthan", compares<CompareOp::kLess>},
    {"<=", compares<CompareOp::kLessEqual>},
    {"le", compares<CompareOp::kLessEqual>},
};

}  // namespace

TestBody find_test(std::string_view name) {
  for (const auto& [known, body] : kTests)
    if (known == name) return body;
  return nullptr;
}

}  // namespace kvik::text::jinja
