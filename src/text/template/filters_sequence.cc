#include <algorithm>

#include "text/template/compare.h"
#include "text/template/filter_tables.h"
#include "text/template/operators.h"
#include "text/template/print.h"
#include "text/template/subscript.h"

namespace kvik::text::jinja {
namespace {

Value count(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("length", args, {});
  return Value::integer(length(runtime, value));
}

Value default_value(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("default", args, {"default_value", "boolean"});
  const bool replaces = value.is_undefined() || (given.truth(runtime, 1, false) && !truth(runtime, value));
  if (!replaces) return value;
  return given[0] == nullptr ? Value::text("") : *given[0];
}

Value list(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("list", args, {});
  return runtime.list(collect(runtime, value));
}

Value first(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("first", args, {});
  const std::optional<Value> item = iterate(runtime, value)->next();
  return item ? *item : runtime.undefined("No first item, sequence was empty.");
}

Value last(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("last", args, {});
  const std::unique_ptr<Iterator> it = iterate_backwards(runtime, value);
  if (it == nullptr) fail("'{}' object is not reversible", type_name(value));
  const std::optional<Value> item = it->next();
  return item ? *item : runtime.undefined("No last item, sequence was empty.");
}

Value reverse(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters none("reverse", args, {});
  if (value.is_text()) return get_slice(runtime, value, {Value::none(), Value::none(), Value::integer(-1)});
  if (std::unique_ptr<Iterator> it = iterate_backwards(runtime, value)) return runtime.generator(std::move(it), value);
  std::vector<Value> values = collect(runtime, value);
  std::reverse(values.begin(), values.end());
  return runtime.list(std::move(values));
}

Value join(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("join", args, {"d", "attribute"});
  const std::string separator = given[0] == nullptr ? "" : printed(runtime, *given[0]);
  const AttributePath path(given[1]);
  const std::unique_ptr<Iterator> it = iterate(runtime, value);
  std::string text;
  bool is_first = true;
  while (std::optional<Value> item = it->next()) {
    runtime.step();
    if (!std::exchange(is_first, false)) text += separator;
    print_to(runtime, path.of(runtime, std::move(*item)), text);
  }
  return runtime.text(std::move(text));
}

// A value and its sort key.
struct Keyed {
  Value key, value;
};

std::vector<Value> sorted(Runtime& runtime, std::vector<Keyed> keyed, bool is_reversed) {
  if (keyed.size() > 1) runtime.check_room(keyed.size() * sizeof(Keyed));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
    return order(is_reversed ? b.key : a.key, is_reversed ? a.key : b.key, "<", runtime.steps_left()) == Order::kLess;
  });
  std::vector<Value> values;
  values.reserve(keyed.size());
  for (Keyed& item : keyed) values.push_back(std::move(item.value));
  return values;
}

std::vector<AttributePath> paths_of(const Value* attribute) {
  std::vector<AttributePath> paths;
  if (attribute == nullptr || !attribute->is_text()) {
    paths.emplace_back(attribute);
    return paths;
  }
  std::string_view rest = attribute->as_text();
  for (;;) {
    const size_t end = rest.find(',');
    const Value part = Value::text(std::string(rest.substr(0, end)));
    paths.emplace_back(&part);
    if (end == std::string_view::npos) return paths;
    rest.remove_prefix(end + 1);
  }
}

Value sort(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool keeps_case = given.truth(runtime, 1, false);
  const std::vector<AttributePath> paths = paths_of(given[2]);
  std::vector<Keyed> keyed;
  for (Value& item : collect(runtime, value)) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      const Value part = path.of(runtime, item);
      key.push_back(keeps_case ? part : without_case(runtime, part));
    }
    keyed.push_back({runtime.list(std::move(key)), std::move(item)});
  }
  return runtime.list(sorted(runtime, std::move(keyed), given.truth(runtime, 0, false)));
}

Value dictsort(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("dictsort", args, {"case_sensitive", "by", "reverse"});
  const bool keeps_case = given.truth(runtime, 0, false);
  const std::string_view by = given.text(1, "key");
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) fail("{}", value.why_undefined());
  if (!value.is(Kind::kDict)) fail("dictsort: expected a dict, not '{}'", type_name(value));
  std::vector<Keyed> keyed;
  for (const Dict::Entry& entry : value.as_dict().entries()) {
    const Value& key = by == "key" ? entry.key : entry.value;
    keyed.push_back({keeps_case ? key : without_case(runtime, key), runtime.tuple({entry.key, entry.value})});
  }
  return runtime.list(sorted(runtime, std::move(keyed), given.truth(runtime, 2, false)));
}

template <Order kWanted>
Value extreme(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("min or max", args, {"case_sensitive", "attribute"});
  const bool keeps_case = given.truth(runtime, 0, false);
  const AttributePath path(given[1]);
  const std::unique_ptr<Iterator> it = iterate(runtime, value);
  std::optional<Keyed> best;
  while (std::optional<Value> item = it->next()) {
    const Value part = path.of(runtime, *item);
    Value key = keeps_case ? part : without_case(runtime, part);
    if (!best || order(key, best->key, kWanted == Order::kLess ? "<" : ">", runtime.steps_left()) == kWanted)
      best = Keyed{std::move(key), std::move(*item)};
  }
  return best ? best->value : runtime.undefined("No aggregated item, sequence was empty.");
}

Value sum(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("sum", args, {"attribute", "start"});
  const AttributePath path(given[0]);
  Value total = given[1] == nullptr ? Value::integer(0) : *given[1];
  if (total.is_text()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  const std::unique_ptr<Iterator> it = iterate(runtime, value);
  while (std::optional<Value> item = it->next()) {
    runtime.step();
    total = apply(runtime, BinaryOp::kAdd, total, path.of(runtime, std::move(*item)));
  }
  return total;
}

Value attr(Runtime& runtime, const Value& value, const Args& args) {
  const Parameters given("attr", args, {"name"}, 1);
  if (value.is_undefined()) fail("{}", value.why_undefined());
  const std::string& name = to_text(given.required(0), "attr");
  if (!find_attribute(runtime, value, name))
    return runtime.undefined(fmt::format("'{} object' has no attribute '{}'", type_name(value), name));
  return get_attribute(runtime, value, name);
}

constexpr Named<FilterBody> kSequenceFilters[] = {
    {"length", count},
    {"count", count},
    {"default", default_value},
    {"d", default_value},
    {"list", list},
    {"first", first},
    {"last", last},
    {"reverse", reverse},
    {"join", join},
    {"sort", sort},
    {"dictsort", dictsort},
    {"min", extreme<Order::kLess>},
    {"max", extreme<Order::kGreater>},
    {"sum", sum},
    {"attr", attr},
};

}  // namespace

FilterBody find_sequence_filter(std::string_view name) { return find_in_table(kSequenceFilters, name); }

}  // namespace kvik::text::jinja
