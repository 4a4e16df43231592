#include <algorithm>

#include "text/template/compare.h"
#include "text/template/methods.h"
#include "text/template/views.h"

namespace kvik::text::jinja {
namespace {

Value view(Runtime& runtime, const Value& self, DictView::Part part) { return runtime.object(std::make_shared<DictView>(self, part)); }

Value dict_keys(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters none("keys", args, {});
  return view(runtime, self, DictView::Part::kKeys);
}

Value dict_values(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters none("values", args, {});
  return view(runtime, self, DictView::Part::kValues);
}

Value dict_items(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters none("items", args, {});
  return view(runtime, self, DictView::Part::kItems);
}

Value dict_get(Runtime&, const Value& self, const Args& args) {
  if (!args.named.empty()) fail("dict.get() takes no keyword arguments");
  const Parameters given("get", args, {"key", "default"}, 1);
  if (!hash_of(given.required(0))) fail("unhashable type: '{}'", type_name(given.required(0)));
  if (const Value* value = self.as_dict().find(given.required(0))) return *value;
  return given[1] == nullptr ? Value::none() : *given[1];
}

Value copy(Runtime&, const Value& self, const Args& args) {
  const Parameters none("copy", args, {});
  return self;  // immutable, so it is its own copy
}

Value items_index(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("index", args, {"value", "start", "stop"}, 1);
  const auto size = static_cast<int64_t>(self.as_items().size());
  const auto placed = [&](size_t i, int64_t otherwise) {
    const int64_t at = given.integer(i, otherwise);
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  for (int64_t i = placed(1, 0); i < placed(2, size); ++i)
    if (equal(self.as_items()[static_cast<size_t>(i)], given.required(0), runtime.steps_left())) return Value::integer(i);
  fail("the value is not in the {}", type_name(self));
}

Value items_count(Runtime& runtime, const Value& self, const Args& args) {
  const Parameters given("count", args, {"value"}, 1);
  int64_t n = 0;
  for (const Value& value : self.as_items()) n += equal(value, given.required(0), runtime.steps_left()) ? 1 : 0;
  return Value::integer(n);
}

constexpr Named<MethodBody> kOfDicts[] = {
    {"get", dict_get}, {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"copy", copy}};
constexpr Named<MethodBody> kOfItems[] = {{"index", items_index}, {"count", items_count}};
constexpr Named<MethodBody> kOfLists[] = {{"copy", copy}};

template <size_t n>
MethodBody find_in(const Named<MethodBody> (&table)[n], std::string_view name) {
  for (const auto& [known, body] : table)
    if (known == name) return body;
  return nullptr;
}

}  // namespace

MethodBody find_method(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::kText: return find_text_method(name);
    case Kind::kDict: return find_in(kOfDicts, name);
    case Kind::kList:
      if (const MethodBody body = find_in(kOfLists, name)) return body;
      return find_in(kOfItems, name);
    case Kind::kTuple: return find_in(kOfItems, name);
    default: return nullptr;
  }
}

}  // namespace kvik::text::jinja
