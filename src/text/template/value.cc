#include "text/template/value.h"

#include <algorithm>

#include "text/template/dict.h"
#include "text/template/object.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {

Text::Text(std::string utf8_in, bool is_markup_in) : utf8(std::move(utf8_in)), n_points(count_points(utf8)), is_markup(is_markup_in) {}

Items::Items(std::vector<Value> values_in) : values(std::move(values_in)) { set_nesting(nesting_around(values)); }

int nesting_around(const std::vector<Value>& values) {
  int deepest = 0;
  for (const Value& value : values) deepest = std::max(deepest, value.nesting());
  return deepest + 1;
}

Value Value::real(double value) {
  Value result(Kind::kFloat);
  result.real_ = value;
  return result;
}

Value Value::big(BigInt value) {
  if (const std::optional<int64_t> small = value.to_int64()) return integer(*small);
  return Value(Kind::kBigInt, std::make_shared<BigIntCell>(std::move(value)));
}

Value Value::list(std::vector<Value> values) { return Value(Kind::kList, std::make_shared<Items>(std::move(values))); }
Value Value::tuple(std::vector<Value> values) { return Value(Kind::kTuple, std::make_shared<Items>(std::move(values))); }
Value Value::dict(std::shared_ptr<Dict> dict) { return Value(Kind::kDict, std::move(dict)); }
Value Value::object(std::shared_ptr<Object> object) { return Value(Kind::kObject, std::move(object)); }

BigInt Value::as_big() const { return kind_ == Kind::kBigInt ? static_cast<const BigIntCell&>(*cell_).value : BigInt(whole_); }

double Value::to_double() const {
  if (kind_ == Kind::kFloat) return real_;
  return kind_ == Kind::kBigInt ? static_cast<const BigIntCell&>(*cell_).value.to_double() : static_cast<double>(whole_);
}

const Dict& Value::as_dict() const { return static_cast<const Dict&>(*cell_); }
Object& Value::as_object() const { return static_cast<Object&>(*cell_); }

const std::string& Value::why_undefined() const {
  static const std::string kUnset = "the value is undefined";
  return kind_ == Kind::kUndefined ? static_cast<const Absence&>(*cell_).why : kUnset;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt:
    case Kind::kBigInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kText: return value.text_cell().is_markup ? "Markup" : "str";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kDict: return "dict";
    case Kind::kObject: return value.as_object().type_name();
  }
  return "object";
}

}  // namespace kvik::text::jinja
