#include "constrain/schema/shape.h"

#include <algorithm>
#include <set>

#include "constrain/schema/string_values.h"

namespace kvik::constrain {
namespace {

int smaller_limit(int a, int b) {
  if (a < 0) return b;
  return b < 0 ? a : std::min(a, b);
}

template <class T>
void append(std::vector<T>& list, const std::vector<T>& other) {
  list.insert(list.end(), other.begin(), other.end());
}

void tighten(std::optional<Bound>& bound, const std::optional<Bound>& other, bool lower) {
  if (!other) return;
  const bool tighter =
      !bound || (lower ? other->value > bound->value : other->value < bound->value) || (other->value == bound->value && other->exclusive);
  if (tighter) bound = other;
}

bool matches(const std::string& pattern, const std::string& name) { return dfa_of({pattern, "patternProperties"}).matches(name); }

}  // namespace

const SchemaRef* ObjectPart::find(const std::string& name) const {
  const auto found = std::ranges::find(properties, name, &std::pair<std::string, SchemaRef>::first);
  return found == properties.end() ? nullptr : &found->second;
}

uint8_t both_types(uint8_t a, uint8_t b) {
  const auto widened = [](uint8_t types) { return static_cast<uint8_t>(types & kNumber ? types | kInteger : types); };
  return widened(a) & widened(b);
}

void Shape::join(const Shape& other) {
  append(sources, other.sources);
  types = both_types(types, other.types);
  if (other.has_values && has_values) {
    std::erase_if(values, [&](const Json* value) {
      return std::ranges::none_of(other.values, [&](const Json* theirs) { return *theirs == *value; });
    });
  } else if (other.has_values) {
    values = other.values;
    has_values = true;
  }
  tighten(numbers.least, other.numbers.least, true);
  tighten(numbers.most, other.numbers.most, false);
  if (other.numbers.multiple_of)
    numbers.multiple_of =
        numbers.multiple_of ? common_multiple(*numbers.multiple_of, *other.numbers.multiple_of) : *other.numbers.multiple_of;
  min_length = std::max(min_length, other.min_length);
  max_length = smaller_limit(max_length, other.max_length);
  append(patterns, other.patterns);
  min_items = std::max(min_items, other.min_items);
  max_items = smaller_limit(max_items, other.max_items);
  unique_items = unique_items || other.unique_items;
  append(arrays, other.arrays);
  append(contains, other.contains);
  min_properties = std::max(min_properties, other.min_properties);
  max_properties = smaller_limit(max_properties, other.max_properties);
  append(objects, other.objects);
  for (const std::string& name : other.required) {
    if (std::ranges::find(required, name) == required.end()) required.push_back(name);
  }
  append(forbidden, other.forbidden);
  append(property_names, other.property_names);
  is_narrowed = is_narrowed || other.is_narrowed;
}

std::vector<std::string> Shape::names() const {
  std::vector<std::string> all;
  std::set<std::string> seen(forbidden.begin(), forbidden.end());
  const auto add = [&](const std::string& name) {
    if (seen.insert(name).second) all.push_back(name);
  };
  for (const ObjectPart& part : objects) {
    for (const auto& property : part.properties) add(property.first);
  }
  for (const std::string& name : required) add(name);
  return all;
}

bool Shape::is_open() const {
  bool listed = false;
  for (const ObjectPart& part : objects) {
    if (part.additional) return true;  // what it says counts
    listed = listed || !part.properties.empty() || !part.patterns.empty();
  }
  return !listed;
}

Conjunction Shape::value_of(const std::string& name) const {
  Conjunction all;
  for (const ObjectPart& part : objects) {
    const SchemaRef* const property = part.find(name);
    bool found = property != nullptr;
    if (found) all.push_back(*property);
    for (const auto& [pattern, schema] : part.patterns) {
      if (!matches(pattern, name)) continue;
      all.push_back(schema);
      found = true;
    }
    if (!found && part.additional) all.push_back(*part.additional);
  }
  return all;
}

void Shape::add_unevaluated_properties(const SchemaRef& schema) {
  static const Json kTrue = true;
  ObjectPart rest{.additional = schema, .is_unevaluated = true};
  for (const ObjectPart& part : objects) {
    if (!part.evaluates) continue;
    if (part.additional) return;  // it evaluates all others
    for (const auto& [name, ignored] : part.properties) rest.properties.emplace_back(name, SchemaRef{&kTrue, schema.where});
    for (const auto& [pattern, ignored] : part.patterns) rest.patterns.emplace_back(pattern, SchemaRef{&kTrue, schema.where});
  }
  objects.push_back(std::move(rest));
  is_narrowed = true;
}

void Shape::add_unevaluated_items(const SchemaRef& schema) {
  static const Json kTrue = true;
  size_t n_evaluated = 0;
  for (const ArrayPart& part : arrays) {
    if (!part.evaluates) continue;
    if (part.items) return;
    n_evaluated = std::max(n_evaluated, part.prefix.size());
  }
  arrays.push_back({std::vector<SchemaRef>(n_evaluated, SchemaRef{&kTrue, schema.where}), schema, true, true});
  is_narrowed = true;
}

Shape Shape::without_unevaluated() const {
  Shape wider = *this;
  std::erase_if(wider.objects, [](const ObjectPart& part) { return part.is_unevaluated; });
  std::erase_if(wider.arrays, [](const ArrayPart& part) { return part.is_unevaluated; });
  wider.is_narrowed = false;
  return wider;
}

Conjunction Shape::element(size_t index) const {
  Conjunction all;
  for (const ArrayPart& part : arrays) {
    if (index < part.prefix.size()) {
      all.push_back(part.prefix[index]);
    } else if (part.items) {
      all.push_back(*part.items);
    }
  }
  return all;
}

}  // namespace kvik::constrain
