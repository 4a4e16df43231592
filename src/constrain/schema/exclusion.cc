// Whether schemas exclude each other, and whether a value satisfies one.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "base/utf8.h"
#include "constrain/limits.h"
#include "constrain/schema/read_shape.h"
#include "constrain/schema/resolver.h"
#include "constrain/schema/string_values.h"

namespace kvik::constrain {
namespace {

constexpr size_t kWorkPerPattern = 20;
constexpr int kMostDepth = 6;  // of properties within properties that are compared

uint8_t type_of(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_string()) return kString;
  if (value.is_array()) return kArray;
  if (value.is_object()) return kObject;
  const bool whole = value.is_number_integer() || std::floor(value.get<double>()) == value.get<double>();
  return whole ? kInteger : kNumber;
}

bool is_in_range(double value, const NumberRange& range) {
  if (range.least && (value < range.least->value || (range.least->exclusive && value == range.least->value))) return false;
  if (range.most && (value > range.most->value || (range.most->exclusive && value == range.most->value))) return false;
  if (!range.multiple_of) return true;
  const double quotient = value / std::stod(*range.multiple_of);
  return quotient == std::floor(quotient);
}

bool is_count_in(size_t count, int least, int most) {
  return count >= static_cast<size_t>(least) && (most < 0 || count <= static_cast<size_t>(most));
}

bool has_duplicates(const Json& array) {
  for (size_t i = 0; i < array.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (array[i] == array[j]) return true;
    }
  }
  return false;
}

bool are_apart(const NumberRange& a, const NumberRange& b) {
  const auto below = [](const std::optional<Bound>& most, const std::optional<Bound>& least) {
    if (!most || !least) return false;
    return most->value < least->value || (most->value == least->value && (most->exclusive || least->exclusive));
  };
  return below(a.most, b.least) || below(b.most, a.least);
}

bool counts_are_apart(int a_least, int a_most, int b_least, int b_most) {
  return (a_most >= 0 && a_most < b_least) || (b_most >= 0 && b_most < a_least);
}

bool forbids(const Conjunction& all) {
  return std::ranges::any_of(all, [](const SchemaRef& ref) { return *ref.schema == Json(false); });
}

bool holds(const std::vector<std::string>& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

}  // namespace

bool Resolver::satisfies(const Json& value, const Conjunction& all) {
  return std::ranges::all_of(all, [&](const SchemaRef& ref) { return satisfies(value, ref, 0); });
}

bool Resolver::satisfies(const Json& value, const SchemaRef& ref, int depth) {
  if (depth > kMostNesting) fail_schema(ref.where, fmt::format("references are nested more than {} deep", kMostNesting));
  const std::vector<const Json*> open = std::exchange(open_, {});  // a value that contains others may be of a schema that contains itself
  const std::vector<Shape> shapes = alternatives(ref);
  open_ = open;
  return std::ranges::any_of(shapes, [&](const Shape& shape) { return satisfies_shape(value, shape, depth + 1); });
}

bool Resolver::satisfies_shape(const Json& value, const Shape& shape, int depth) {
  if ((both_types(shape.types, type_of(value))) == 0) return false;
  if (shape.has_values && std::ranges::none_of(shape.values, [&](const Json* one) { return *one == value; })) return false;
  if (value.is_number()) return is_in_range(value.get<double>(), shape.numbers);
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    const auto n = static_cast<size_t>(std::ranges::count_if(text, utf8::begins_character));
    return is_count_in(n, shape.min_length, shape.max_length) &&
           std::ranges::all_of(shape.patterns, [&](const StringPattern& pattern) { return dfa_of(pattern).matches(text); });
  }
  if (value.is_array()) {
    if (!is_count_in(value.size(), shape.min_items, shape.max_items)) return false;
    if (shape.unique_items && has_duplicates(value)) return false;
    for (size_t i = 0; i < value.size(); ++i) {
      for (const SchemaRef& ref : shape.element(i)) {
        if (!satisfies(value[i], ref, depth)) return false;
      }
    }
    for (const ContainsPart& part : shape.contains) {
      const auto n = std::ranges::count_if(value, [&](const Json& one) { return satisfies(one, part.schema, depth); });
      if (!is_count_in(static_cast<size_t>(n), part.least, part.most)) return false;
    }
  }
  return !value.is_object() || satisfies_object(value, shape, depth);
}

std::optional<std::vector<const Json*>> Resolver::listed_values(const Conjunction& all) {
  static const Json kPlain[] = {false, true, nullptr};
  std::vector<const Json*> found;
  for (const Shape& shape : alternatives(all)) {
    std::vector<const Json*> values = shape.values;
    if (!shape.has_values) {
      if ((shape.types & ~(kBoolean | kNull)) != 0) return std::nullopt;
      for (const Json& value : kPlain) values.push_back(&value);
    }
    for (const Json* value : values) {
      const bool is_known = std::ranges::any_of(found, [&](const Json* other) { return *other == *value; });
      if (!is_known && satisfies_shape(*value, shape)) found.push_back(value);
    }
  }
  return found;
}

bool Resolver::satisfies_object(const Json& value, const Shape& shape, int depth) {
  if (!is_count_in(value.size(), shape.min_properties, shape.max_properties)) return false;
  if (!std::ranges::all_of(shape.required, [&](const std::string& name) { return value.contains(name); })) return false;
  if (std::ranges::any_of(shape.forbidden, [&](const std::string& name) { return value.contains(name); })) return false;
  for (const auto& item : value.items()) {
    for (const SchemaRef& ref : shape.value_of(item.key())) {
      if (!satisfies(item.value(), ref, depth)) return false;
    }
    for (const SchemaRef& ref : shape.property_names) {
      if (!satisfies(Json(item.key()), ref, depth)) return false;
    }
  }
  return true;
}

bool Resolver::excludes(const Shape& a, const Shape& b, int depth) {
  add_work(1, a.where);
  const uint8_t types = both_types(a.types, b.types);
  if (types == 0) return true;
  if (a.is_narrowed) return excludes(a.without_unevaluated(), b, depth);
  if (b.is_narrowed) return excludes(a, b.without_unevaluated(), depth);
  if (a.has_values || b.has_values) {
    const auto satisfies_both = [&](const Json* value) { return satisfies_shape(*value, a) && satisfies_shape(*value, b); };
    return std::ranges::none_of((a.has_values ? a : b).values, satisfies_both);
  }
  if ((types & (kNull | kBoolean)) != 0) return false;
  if ((types & (kInteger | kNumber)) != 0 && !are_apart(a.numbers, b.numbers)) return false;
  if ((types & kString) != 0) {
    if (!a.patterns.empty() && !b.patterns.empty()) add_work(kWorkPerPattern, a.where);
    const bool apart = counts_are_apart(a.min_length, a.max_length, b.min_length, b.max_length) ||
                       (!a.patterns.empty() && !b.patterns.empty() && string_values(a).intersect(string_values(b)).is_empty());
    if (!apart) return false;
  }
  if ((types & kArray) != 0) {
    const bool has_element = a.min_items > 0 || b.min_items > 0;
    const bool apart = counts_are_apart(a.min_items, a.max_items, b.min_items, b.max_items) ||
                       (has_element && depth < kMostDepth && excludes_all(a.element(0), b.element(0), depth));
    if (!apart) return false;
  }
  return (types & kObject) == 0 || excludes_object(a, b, depth);
}

bool Resolver::excludes_all(const Conjunction& a, const Conjunction& b, int depth) {
  const std::vector<const Json*> open = std::exchange(open_, {});
  const std::vector<Shape> ours = alternatives(a), theirs = alternatives(b);
  open_ = open;
  for (const Shape& one : ours) {
    for (const Shape& other : theirs) {
      if (!excludes(one, other, depth + 1)) return false;
    }
  }
  return true;
}

bool Resolver::excludes_object(const Shape& a, const Shape& b, int depth) {
  const auto cannot_have = [](const Shape& shape, const std::string& name) {
    return holds(shape.forbidden, name) || forbids(shape.value_of(name));
  };
  const auto is_apart_by = [&](const Shape& shape, const Shape& other, const std::string& name) {
    if (cannot_have(other, name)) return true;
    const Conjunction ours = shape.value_of(name), theirs = other.value_of(name);
    return depth < kMostDepth && !ours.empty() && !theirs.empty() && excludes_all(ours, theirs, depth);
  };
  return std::ranges::any_of(a.required, [&](const std::string& name) { return is_apart_by(a, b, name); }) ||
         std::ranges::any_of(b.required, [&](const std::string& name) { return is_apart_by(b, a, name); });
}

}  // namespace kvik::constrain
