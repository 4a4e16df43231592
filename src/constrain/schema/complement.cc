// Values that do not satisfy a schema: for not, if and oneOf.
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "constrain/schema/read_shape.h"
#include "constrain/schema/resolver.h"

namespace kvik::constrain {
namespace {

const Json kTrue = true, kFalse = false;

std::string escaped_for_pattern(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view(R"(\^$.|?*+()[]{}/-)").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Numbers between these values.
void add_gaps(std::map<double, std::string> values, const std::string& where, std::vector<Shape>& out) {
  std::optional<Bound> before;
  const auto add = [&](const std::optional<Bound>& most) {
    Shape gap{.where = where, .types = kNumber | kInteger};
    gap.numbers.least = before;
    gap.numbers.most = most;
    out.push_back(std::move(gap));
  };
  for (const auto& [value, text] : values) {
    const Bound bound{text, value, true};
    add(bound);
    before = bound;
  }
  add(std::nullopt);
}

// Values other than these. If one of these is an array, arrays are left out altogether, and likewise objects.
std::vector<Shape> others_than(const std::vector<const Json*>& values, const std::string& where) {
  uint8_t types = kAllTypes;  // none of whose values is excluded
  std::map<double, std::string> numbers;
  std::string texts;
  bool excluded[2] = {};
  for (const Json* value : values) {
    if (value->is_null()) types &= static_cast<uint8_t>(~kNull);
    if (value->is_array()) types &= static_cast<uint8_t>(~kArray);
    if (value->is_object()) types &= static_cast<uint8_t>(~kObject);
    if (value->is_boolean()) excluded[value->get<bool>() ? 1 : 0] = true;
    if (value->is_number()) numbers.try_emplace(value->get<double>(), value->dump());
    if (value->is_string()) texts += (types & kString ? "" : "|") + escaped_for_pattern(value->get<std::string>());
    if (value->is_string()) types &= static_cast<uint8_t>(~kString);
  }
  if (excluded[0] || excluded[1]) types &= static_cast<uint8_t>(~kBoolean);
  if (!numbers.empty()) types &= static_cast<uint8_t>(~(kNumber | kInteger));
  std::vector<Shape> others;
  if (types != 0) others.push_back(Shape{.where = where, .types = types});
  if (excluded[0] != excluded[1])
    others.push_back(Shape{.where = where, .types = kBoolean, .has_values = true, .values = {excluded[0] ? &kTrue : &kFalse}});
  if ((types & kString) == 0) {
    others.push_back(Shape{.where = where, .types = kString});
    others.back().patterns.push_back({texts, where, true, true});
  }
  if (!numbers.empty()) add_gaps(std::move(numbers), where, others);
  return others;
}

}  // namespace

SchemaRef Resolver::negation_of(const SchemaRef& ref) {
  const Json*& made = negations_[ref.schema];
  if (made == nullptr) made = &made_.emplace_back(Json{{"not", *ref.schema}});
  return {made, ref.where};
}

std::vector<Shape> Resolver::complement(const SchemaRef& ref, const std::vector<std::string>& names) {
  const Json& schema = *ref.schema;
  if (schema == Json(false)) return {Shape{.where = ref.where}};
  if (schema == Json(true)) {
    add_note(ref.where, "nothing fails to satisfy the schema true");
    return {};
  }
  const Shape own = open(ref);
  std::vector<Shape> found;
  const auto add = [&](Shape shape) {
    shape.where = ref.where;
    found.push_back(std::move(shape));
  };
  const auto add_all = [&](std::vector<Shape> shapes) { std::ranges::move(shapes, std::back_inserter(found)); };
  const auto other_types = static_cast<uint8_t>(kAllTypes & ~(own.types & kInteger ? own.types | kNumber : own.types));
  if (other_types != 0) add({.types = other_types});
  if (own.has_values) add_all(others_than(own.values, ref.where));
  add_complement_of_limits(own, add);
  for (const StringPattern& pattern : own.patterns) {
    if (pattern.whole) continue;  // a format: other strings may have it too
    add({.types = kString});
    found.back().patterns.push_back({pattern.pattern, pattern.where, false, !pattern.negated});
  }
  for (const std::string& name : own.required) add({.types = kObject, .forbidden = {name}});
  for (const ObjectPart& part : own.objects) {
    for (const auto& [name, property] : part.properties) {
      add({.types = kObject, .required = {name}});
      found.back().objects.push_back({.properties = {{name, negation_of(property)}}});
    }
    if (!part.additional || *part.additional->schema != Json(false)) continue;
    for (const std::string& name : names) {
      const Conjunction all = own.value_of(name);
      if (std::ranges::any_of(all, [&](const SchemaRef& one) { return one.schema == part.additional->schema; }))
        add({.types = kObject, .required = {name}});
    }
  }
  if (const auto reference = schema.find("$ref"); reference != schema.end()) add_all(complement(target_of(ref, *reference), names));
  for (const SchemaRef& one : list_of(ref, "allOf")) add_all(complement(one, names));
  if (const std::vector<SchemaRef> options = list_of(ref, "anyOf"); !options.empty()) {
    std::vector<Shape> none = {Shape{.where = ref.where}};
    for (const SchemaRef& option : options) none = joined(none, complement(option, names), ref.where);
    add_all(std::move(none));
  }
  if (schema.contains("not")) add_all(alternatives(child(ref, "not")));
  close();
  if (is_nullable(schema)) std::erase_if(found, [](Shape& shape) { return (shape.types &= static_cast<uint8_t>(~kNull)) == 0; });
  for (Shape& shape : found) {
    for (ObjectPart& part : shape.objects) part.evaluates = false;
    for (ArrayPart& part : shape.arrays) part.evaluates = false;
  }
  if (found.empty()) add_note(ref.where, "what does not satisfy it is not supported, or there is nothing");
  return found;
}

void Resolver::add_complement_of_limits(const Shape& own, const std::function<void(Shape)>& add) {
  constexpr uint8_t kNumbers = kNumber | kInteger;
  const auto beyond = [](Bound bound) {
    bound.exclusive = !bound.exclusive;
    return bound;
  };
  if (own.numbers.least) add({.types = kNumbers, .numbers = {.most = beyond(*own.numbers.least)}});
  if (own.numbers.most) add({.types = kNumbers, .numbers = {.least = beyond(*own.numbers.most)}});
  if (own.min_length > 0) add({.types = kString, .max_length = own.min_length - 1});
  if (own.max_length >= 0) add({.types = kString, .min_length = own.max_length + 1});
  if (own.min_items > 0) add({.types = kArray, .max_items = own.min_items - 1});
  if (own.max_items >= 0) add({.types = kArray, .min_items = own.max_items + 1});
  for (const ContainsPart& part : own.contains) {
    if (part.least > 0) add({.types = kArray, .contains = {{part.schema, 0, part.least - 1}}});
    if (part.most >= 0) add({.types = kArray, .contains = {{part.schema, part.most + 1, -1}}});
  }
  if (own.min_properties > 0) add({.types = kObject, .max_properties = own.min_properties - 1});
  if (own.max_properties >= 0) add({.types = kObject, .min_properties = own.max_properties + 1});
}

std::vector<Shape> Resolver::without(const Shape& shape, const SchemaRef& ref) {
  std::vector<Shape> found = complement(ref, shape.names());
  const auto differs_in_value = [&](const Shape& one) {
    if (one.required.size() != 1 || one.objects.empty()) return false;
    if (std::ranges::find(shape.required, one.required.front()) == shape.required.end()) return false;
    const auto& properties = one.objects.front().properties;
    if (properties.empty() || !properties.front().second.schema->contains("not")) return false;
    const Json& excluded = properties.front().second.schema->at("not");
    return excluded.contains("enum") || excluded.contains("const");
  };
  if (const auto best = std::ranges::find_if(found, differs_in_value); best != found.end()) return {*best};
  return found;
}

std::vector<Shape> Resolver::conditional(const SchemaRef& ref, const std::vector<std::string>& names) {
  const auto branch = [&](std::vector<Shape> condition, const char* key) {
    return ref.schema->contains(key) ? joined(condition, alternatives(child(ref, key)), ref.where) : condition;
  };
  const SchemaRef condition = child(ref, "if");
  std::vector<Shape> found = branch(alternatives(condition), "then");
  std::ranges::move(branch(complement(condition, names), "else"), std::back_inserter(found));
  return found;
}

// A property is missing, or it is there and what it brings with it holds.
std::vector<Shape> Resolver::dependent(const SchemaRef& ref, const std::string& name) {
  std::vector<Shape> found = {Shape{.where = ref.where, .types = kObject, .required = {name}}};
  if (ref.schema->is_array()) {
    for (const Json& other : *ref.schema) {
      if (!other.is_string()) fail_schema(ref.where, "a list of names was expected");
      if (other != Json(name)) found.front().required.push_back(other.get<std::string>());
    }
  } else {
    found = joined(found, alternatives(ref), ref.where);
  }
  found.push_back(Shape{.where = ref.where, .forbidden = {name}});
  return found;
}

}  // namespace kvik::constrain
