#include "text/template/subscript.h"

#include <algorithm>

#include "text/template/filters.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

std::string describe(const Value& object) {
  if (object.is_none()) return "None";
  return fmt::format("{} object", type_name(object));
}

Value no_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.undefined(fmt::format("'{}' has no attribute '{}'", describe(object), name));
}

// Every Python object has these; the sandbox forbids them.
bool is_hidden(std::string_view name) { return name.size() > 4 && name.starts_with("__") && name.ends_with("__"); }

// Those that an undefined value has; other attributes of it are an error.
bool has_undefined(std::string_view name) { return name == "__class__" || name == "__doc__" || name == "__init__" || name == "__module__"; }

bool would_change(const Value& object, std::string_view name) {
  static constexpr std::string_view kListMethods[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  static constexpr std::string_view kDictMethods[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const auto among = [&](const auto& names) { return std::find(std::begin(names), std::end(names), name) != std::end(names); };
  return (object.is(Kind::kList) && among(kListMethods)) || (object.is(Kind::kDict) && among(kDictMethods));
}

std::optional<Value> item_of_items(const Value& object, const Value& key) {
  if (!key.is_whole() || key.is(Kind::kBigInt)) return std::nullopt;
  const std::vector<Value>& items = object.as_items();
  const auto size = static_cast<int64_t>(items.size());
  const int64_t index = key.as_int() < 0 ? key.as_int() + size : key.as_int();
  return index >= 0 && index < size ? std::optional(items[static_cast<size_t>(index)]) : std::nullopt;
}

std::optional<Value> item_of_text(Runtime& runtime, const Value& object, const Value& key) {
  if (!key.is_whole() || key.is(Kind::kBigInt)) return std::nullopt;
  const Text& text = object.text_cell();
  const auto size = static_cast<int64_t>(text.n_points);
  const int64_t index = key.as_int() < 0 ? key.as_int() + size : key.as_int();
  if (index < 0 || index >= size) return std::nullopt;
  if (text.is_ascii()) return runtime.text(text.utf8.substr(static_cast<size_t>(index), 1), text.is_markup);
  runtime.work(text.utf8.size());
  const size_t start = byte_of_point(text.utf8, static_cast<size_t>(index));
  size_t end = start;
  next_point(text.utf8, end);
  return runtime.text(text.utf8.substr(start, end - start), text.is_markup);
}

// Only Python's []; nothing if it raises TypeError or LookupError.
std::optional<Value> item_of(Runtime& runtime, const Value& object, const Value& key) {
  switch (object.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined: fail("{}", object.why_undefined());
    case Kind::kDict: {
      const Value* value = hash_of(key) ? object.as_dict().find(key) : nullptr;
      return value == nullptr ? std::nullopt : std::optional(*value);
    }
    case Kind::kList:
    case Kind::kTuple: return item_of_items(object, key);
    case Kind::kText: return item_of_text(runtime, object, key);
    case Kind::kObject: return object.as_object().item(runtime, key);
    default: return std::nullopt;
  }
}

// The attribute as in the sandbox: undefined if it is forbidden.
std::optional<Value> safe_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (is_hidden(name) || would_change(object, name))
    return runtime.undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  return find_attribute(runtime, object, name);
}

int64_t bound(const Value& value, int64_t length, int64_t otherwise, int64_t lowest, int64_t highest) {
  if (value.is_none()) return otherwise;
  int64_t index = to_index(value, "a slice");
  if (index < 0) index = index < -length ? lowest : index + length;
  return std::clamp(index, lowest, highest);
}

}  // namespace

std::optional<Value> find_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is(Kind::kObject)) return object.as_object().attribute(runtime, object, name);
  if (const MethodBody method = find_method(object, name)) return runtime.function(name, method, object);
  return std::nullopt;
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_undefined() && !has_undefined(name)) fail("{}", object.why_undefined());
  if (object.is(Kind::kDict)) {  // the most common case; few names are methods
    const bool is_plain = !is_hidden(name) && !would_change(object, name) && find_method(object, name) == nullptr;
    if (is_plain) {
      const Value* value = object.as_dict().find(name);
      return value != nullptr ? *value : no_attribute(runtime, object, name);
    }
  }
  if (std::optional<Value> value = safe_attribute(runtime, object, name)) return *value;
  if (std::optional<Value> value = item_of(runtime, object, Value::text(std::string(name)))) return *value;
  return no_attribute(runtime, object, name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (std::optional<Value> value = item_of(runtime, object, key)) return *value;
  if (key.is_text()) {
    if (std::optional<Value> value = safe_attribute(runtime, object, key.as_text())) return *value;
    return no_attribute(runtime, object, key.as_text());
  }
  return runtime.undefined(fmt::format("{} has no element {}", describe(object), represented(runtime, key)));
}

SliceIndices slice_indices(const SliceBounds& bounds, int64_t length) {
  const int64_t step = bounds.step.is_none() ? 1 : to_index(bounds.step, "a slice");
  if (step == 0) fail("slice step cannot be zero");
  const bool backwards = step < 0;
  const int64_t lowest = backwards ? -1 : 0, highest = backwards ? length - 1 : length;
  const int64_t start = bound(bounds.start, length, backwards ? highest : 0, lowest, highest);
  const int64_t stop = bound(bounds.stop, length, backwards ? lowest : length, lowest, highest);
  SliceIndices indices{start, 0, step};
  if (!backwards && start < stop) indices.count = (stop - start - 1) / step + 1;
  if (backwards && stop < start) indices.count = step == INT64_MIN ? 1 : (start - stop - 1) / -step + 1;
  return indices;
}

Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  if (object.is_undefined()) fail("{}", object.why_undefined());
  if (object.is_sequence()) {
    const std::vector<Value>& items = object.as_items();
    const SliceIndices indices = slice_indices(bounds, static_cast<int64_t>(items.size()));
    runtime.check_room(static_cast<size_t>(indices.count) * sizeof(Value));
    std::vector<Value> part;
    part.reserve(static_cast<size_t>(indices.count));
    for (int64_t i = 0; i < indices.count; ++i) part.push_back(items[static_cast<size_t>(indices.start + i * indices.step)]);
    return object.is(Kind::kList) ? runtime.list(std::move(part)) : runtime.tuple(std::move(part));
  }
  if (!object.is_text()) {
    const bool is_sliceable = object.is(Kind::kObject) && object.as_object().has_items();
    fail("{}", is_sliceable ? fmt::format("a {} cannot be sliced here; make it a list first", type_name(object))
                            : fmt::format("'{}' object is not subscriptable", type_name(object)));
  }
  const Text& text = object.text_cell();
  runtime.work(text.utf8.size());
  const SliceIndices indices = slice_indices(bounds, static_cast<int64_t>(text.n_points));
  if (indices.step == 1) {
    const std::string_view utf8 = text.utf8;
    const size_t start = text.is_ascii() ? static_cast<size_t>(indices.start) : byte_of_point(utf8, static_cast<size_t>(indices.start));
    if (indices.count == 0) return runtime.text("", text.is_markup);
    const size_t n_bytes =
        text.is_ascii() ? static_cast<size_t>(indices.count) : byte_of_point(utf8.substr(start), static_cast<size_t>(indices.count));
    return runtime.text(std::string(utf8.substr(start, n_bytes)), text.is_markup);
  }
  std::vector<std::string_view> points;
  runtime.check_room(text.n_points * sizeof(std::string_view));
  points.reserve(text.n_points);
  for (size_t at = 0; at < text.utf8.size();) {
    const size_t start = at;
    next_point(text.utf8, at);
    points.push_back(std::string_view(text.utf8).substr(start, at - start));
  }
  std::string part;
  for (int64_t i = 0; i < indices.count; ++i) part += points[static_cast<size_t>(indices.start + i * indices.step)];
  return runtime.text(std::move(part), text.is_markup);
}

}  // namespace kvik::text::jinja
