#include "text/template/runtime.h"

#include <algorithm>
#include <limits>

#include "text/template/compare.h"
#include "text/template/text_search.h"

namespace kvik::text::jinja {
namespace {

constexpr size_t kCellBytes = 112;  // about the overhead of a small value

}  // namespace

Runtime::~Runtime() {
  for (const std::function<void()>& empty : at_end_) empty();
}

void Runtime::out_of_steps() const {
  throw Fault(Code::kTooLarge, fmt::format("the template took more than {} steps and was stopped; it may loop without end", limits_.steps));
}

void Runtime::check_room(size_t n_bytes) const {
  if (n_bytes <= limits_.memory_bytes && meter_.live_bytes <= limits_.memory_bytes - n_bytes) return;
  throw Fault(Code::kTooLarge, fmt::format("the template needs {} more bytes and has {}; the limit is {}", n_bytes, meter_.live_bytes,
                                           limits_.memory_bytes));
}

void Runtime::account(Cell& cell, size_t n_bytes) {
  check_room(n_bytes);
  work(n_bytes);
  if (cell.nesting() > kMaxNesting) throw Fault(Code::kTooLarge, fmt::format("the template nests values more than {} deep", kMaxNesting));
  cell.charge(meter_, n_bytes);
}

Value Runtime::text(std::string utf8, bool is_markup) {
  Value value = Value::text(std::move(utf8), is_markup);
  account(*value.cell(), kCellBytes + value.as_text().capacity());
  return value;
}

Value Runtime::items(Kind kind, std::vector<Value> values) {
  const size_t n_bytes = kCellBytes + values.capacity() * sizeof(Value);
  auto cell = std::make_shared<Items>(std::move(values));
  account(*cell, n_bytes);
  return Value(kind, std::move(cell));
}

Value Runtime::dict(std::shared_ptr<Dict> dict) {
  account(*dict, kCellBytes + dict->size() * 2 * sizeof(Dict::Entry));
  return Value::dict(std::move(dict));
}

Value Runtime::object(std::shared_ptr<Object> object) {
  account(*object, 3 * kCellBytes);
  return Value::object(std::move(object));
}

Value Runtime::undefined(std::string why) {
  Value value = Value::undefined(std::move(why));
  account(*value.cell(), kCellBytes + value.why_undefined().capacity());
  return value;
}

Value Runtime::whole(BigInt value) {
  const size_t n_bytes = kCellBytes + value.bits() / 8;
  Value result = Value::big(std::move(value));
  if (result.is(Kind::kBigInt)) account(*result.cell(), n_bytes);
  return result;
}

Value Runtime::generator(std::unique_ptr<Iterator> source, const Value& of) {
  return object(std::make_shared<Generator>(std::move(source), of.nesting() + 1));
}

Value Runtime::function(std::string_view name, Function::Body body, Value self) {
  return object(std::make_shared<Function>(name, body, std::move(self)));
}

Runtime::Call::Call(Runtime& runtime) : runtime_(runtime) {
  if (runtime.call_depth_ >= runtime.limits_.call_depth)
    throw Fault(Code::kTooLarge, fmt::format("the template calls itself more than {} deep", runtime.limits_.call_depth));
  ++runtime.call_depth_;
}

Parameters::Parameters(std::string_view function, const Args& args, std::initializer_list<std::string_view> names, size_t n_required)
    : function_(function) {
  if (args.list.size() > names.size()) fail("{}() takes at most {} arguments but {} were given", function, names.size(), args.list.size());
  for (size_t i = 0; i < args.list.size(); ++i) values_[i] = &args.list[i];
  for (const auto& [name, value] : args.named) {
    const auto at = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size()) fail("{}() got an unexpected keyword argument '{}'", function, name);
    if (values_[at] != nullptr) fail("{}() got multiple values for argument '{}'", function, name);
    values_[at] = &value;
  }
  for (size_t i = 0; i < n_required; ++i)
    if (values_[i] == nullptr) fail("{}() misses its required argument '{}'", function, names.begin()[i]);
}

int64_t Parameters::integer(size_t i, int64_t otherwise) const {
  return values_[i] == nullptr || values_[i]->is_none() ? otherwise : to_index(*values_[i], function_);
}

std::string_view Parameters::text(size_t i, std::string_view otherwise) const {
  return values_[i] == nullptr || values_[i]->is_none() ? otherwise : std::string_view(to_text(*values_[i], function_));
}

bool Parameters::truth(Runtime& runtime, size_t i, bool otherwise) const {
  return values_[i] == nullptr ? otherwise : jinja::truth(runtime, *values_[i]);
}

bool truth(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInt: return value.as_int() != 0;
    case Kind::kBigInt: return true;
    case Kind::kFloat: return value.as_float() != 0;
    case Kind::kText: return !value.as_text().empty();
    case Kind::kList:
    case Kind::kTuple: return !value.as_items().empty();
    case Kind::kDict: return value.as_dict().size() != 0;
    case Kind::kObject: return value.as_object().length(runtime).value_or(1) != 0;
  }
  return true;
}

int64_t to_index(const Value& value, std::string_view what) {
  if (value.is_undefined()) fail("{}", value.why_undefined());
  if (value.is(Kind::kBigInt))
    return value.as_big().is_negative() ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
  if (!value.is_whole()) fail("{}: '{}' object cannot be interpreted as an integer", what, type_name(value));
  return value.as_int();
}

const std::string& to_text(const Value& value, std::string_view what) {
  if (value.is_undefined()) fail("{}", value.why_undefined());
  if (!value.is_text()) fail("{}: a str was expected, not '{}'", what, type_name(value));
  return value.as_text();
}

std::optional<int64_t> try_length(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: return 0;
    case Kind::kText: return static_cast<int64_t>(value.text_cell().n_points);
    case Kind::kList:
    case Kind::kTuple: return static_cast<int64_t>(value.as_items().size());
    case Kind::kDict: return static_cast<int64_t>(value.as_dict().size());
    case Kind::kObject: return value.as_object().length(runtime);
    default: return std::nullopt;
  }
}

int64_t length(Runtime& runtime, const Value& value) {
  const std::optional<int64_t> n = try_length(runtime, value);
  if (!n) fail("object of type '{}' has no len()", type_name(value));
  return *n;
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.is_text()) {
    if (item.is_undefined()) fail("'in <string>' requires string as left operand, not Undefined");
    if (!item.is_text()) fail("'in <string>' requires string as left operand, not {}", type_name(item));
    runtime.work(container.as_text().size());
    return find_text(container.as_text(), item.as_text()) != std::string::npos;
  }
  if (container.is(Kind::kDict)) {
    if (!hash_of(item)) fail("unhashable type: '{}'", type_name(item));
    return container.as_dict().find(item) != nullptr;
  }
  const std::unique_ptr<Iterator> it = try_iterate(runtime, container);
  if (it == nullptr) fail("argument of type '{}' is not iterable", type_name(container));
  while (const std::optional<Value> value = it->next()) {
    runtime.step();
    if ((value->cell() != nullptr && value->cell() == item.cell()) || equal(*value, item, runtime.steps_left())) return true;
  }
  return false;
}

}  // namespace kvik::text::jinja
