#include "constrain/schema/resolver.h"

#include <algorithm>
#include <fmt/format.h>

#include "constrain/limits.h"
#include "constrain/schema/read_shape.h"
#include "kvik/error.h"

namespace kvik::constrain {
namespace {

constexpr size_t kMostWork = 500'000;  // shapes that are joined or compared, of a whole schema

std::string pointer_part(std::string_view part) {
  std::string text;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1')) {
      text += part[++i] == '0' ? '~' : '/';
    } else if (part[i] == '%' && i + 2 < part.size() && std::isxdigit(static_cast<unsigned char>(part[i + 1])) &&
               std::isxdigit(static_cast<unsigned char>(part[i + 2]))) {
      text += static_cast<char>(std::stoi(std::string(part.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      text += part[i];
    }
  }
  return text;
}

// $id, or id of draft 4, without an empty fragment; empty if there is none.
std::string id_of(const Json& schema) {
  for (const char* key : {"$id", "id"}) {
    if (!schema.is_object() || !schema.contains(key) || !schema[key].is_string()) continue;
    std::string id = schema[key].get<std::string>();
    if (id.ends_with('#')) id.pop_back();
    return id;
  }
  return "";
}

// Schemas that $anchor or $id names.
void find_named(const Json& at, const std::string& where, std::map<std::string, SchemaRef>& named) {
  if (at.is_object()) {
    if (const std::string id = id_of(at); !id.empty()) named.try_emplace(id, SchemaRef{&at, where});
    if (at.contains("$anchor") && at["$anchor"].is_string())
      named.try_emplace("#" + at["$anchor"].get<std::string>(), SchemaRef{&at, where});
  }
  if (!at.is_structured()) return;
  for (const auto& item : at.items()) find_named(item.value(), where + "/" + item.key(), named);
}

}  // namespace

void Resolver::add_note(const std::string& where, const std::string& why) {
  if (note_.empty()) note_ = fmt::format("{}: {}", where.empty() ? "/" : where, why);
}

SchemaRef Resolver::target_of(const SchemaRef& ref, const Json& reference) {
  const std::string where = ref.where + "/$ref";
  if (!reference.is_string()) fail_schema(where, "a string was expected");
  auto text = reference.get<std::string>();
  if (const std::string id = id_of(document_); !id.empty() && text.starts_with(id) && (text.size() == id.size() || text[id.size()] == '#'))
    text = text.size() == id.size() ? "#" : text.substr(id.size());
  if (!text.starts_with('#') || (text.size() > 1 && text[1] != '/')) {
    if (named_.empty()) find_named(document_, "", named_);
    if (const auto found = named_.find(text); found != named_.end()) return found->second;
    fail_schema(where, fmt::format("'{}' is not supported; a reference within the schema (#/…) was expected", text));
  }
  const Json* at = &document_;
  for (size_t begin = 2; begin <= text.size() && text.size() > 1;) {
    const size_t end = std::min(text.find('/', begin), text.size());
    const std::string part = pointer_part(std::string_view(text).substr(begin, end - begin));
    const Json* next = nullptr;
    if (at->is_object() && at->contains(part)) next = &at->at(part);
    if (at->is_array() && !part.empty() && part.size() < 8 && part.find_first_not_of("0123456789") == std::string::npos &&
        std::stoul(part) < at->size())
      next = &at->at(std::stoul(part));
    if (next == nullptr) fail_schema(where, fmt::format("'{}' refers to nothing in the schema", text));
    at = next;
    begin = end + 1;
  }
  if (!at->is_object() && !at->is_boolean()) fail_schema(where, fmt::format("'{}' does not refer to a schema", text));
  return {at, text.substr(1)};
}

void Resolver::add_work(size_t n, const std::string& where) {
  work_ += n;
  if (work_ > kMostWork) fail_schema(where, "the schema combines too many alternatives");
}

std::vector<Shape> Resolver::joined(const std::vector<Shape>& a, const std::vector<Shape>& b, const std::string& where) {
  std::vector<Shape> all;
  add_work(a.size() * b.size(), where);
  if (a.size() * b.size() > kMostAlternatives)
    fail_schema(where, fmt::format("allOf, anyOf and oneOf give more than {} combinations", kMostAlternatives));
  for (const Shape& one : a) {
    for (const Shape& other : b) {
      Shape both = one;
      both.join(other);
      if (both.types == 0) {
        add_note(other.where, "no type is allowed by all that must hold");
        continue;
      }
      all.push_back(std::move(both));
    }
  }
  return all;
}

std::vector<Shape> Resolver::alternatives(const Conjunction& all) {
  std::vector<Shape> found(1);
  if (!all.empty()) found.front().where = all.front().where;
  for (const SchemaRef& ref : all) found = joined(found, alternatives(ref), ref.where);
  return found;
}

std::vector<Shape> Resolver::alternatives(const SchemaRef& ref) {
  const Json& schema = *ref.schema;
  if (schema.is_boolean()) {
    if (schema.get<bool>()) return {Shape{.where = ref.where}};
    add_note(ref.where, "the schema false allows nothing");
    return {};
  }
  std::vector<Shape> found = {open(ref)};
  const std::vector<std::string> names = found.front().names();
  const auto also = [&](const std::vector<Shape>& shapes) { found = joined(found, shapes, ref.where); };
  if (const auto reference = schema.find("$ref"); reference != schema.end()) also(alternatives(target_of(ref, *reference)));
  for (const SchemaRef& one : list_of(ref, "allOf")) also(alternatives(one));
  if (schema.contains("anyOf")) also(any_of(ref, "anyOf"));
  if (schema.contains("oneOf")) also(one_of(ref, found.empty() ? 0 : found.front().types));
  if (schema.contains("not")) also(complement(child(ref, "not"), names));
  if (schema.contains("if")) also(conditional(ref, names));
  for (const char* key : {"dependencies", "dependentRequired", "dependentSchemas"}) {
    if (!schema.contains(key)) continue;
    if (!schema[key].is_object()) fail_schema(ref.where + "/" + key, "an object was expected");
    for (const auto& item : schema[key].items()) also(dependent(child(child(ref, key), item.key()), item.key()));
  }
  // After all others: what these evaluate counts.
  for (Shape& shape : found) {
    if (schema.contains("unevaluatedProperties")) shape.add_unevaluated_properties(child(ref, "unevaluatedProperties"));
    if (schema.contains("unevaluatedItems")) shape.add_unevaluated_items(child(ref, "unevaluatedItems"));
  }
  close();
  if (is_nullable(schema)) found.push_back(Shape{.where = ref.where, .types = kNull});
  return found;
}

// A keyword of OpenAPI, not of JSON Schema.
bool Resolver::is_nullable(const Json& schema) const {
  const bool is_json_schema = document_.is_object() && document_.contains("$schema");
  return !is_json_schema && schema.contains("nullable") && schema["nullable"] == Json(true);
}

Shape Resolver::open(const SchemaRef& ref) {
  if (!ref.schema->is_object()) fail_schema(ref.where, "a schema was expected: an object, true or false");
  if (std::ranges::find(open_, ref.schema) != open_.end())
    fail_schema(ref.where, "the schema refers to itself without a property or element in between");
  if (open_.size() >= static_cast<size_t>(kMostNesting))
    fail_schema(ref.where, fmt::format("references are nested more than {} deep", kMostNesting));
  open_.push_back(ref.schema);
  return read_shape(ref);
}

std::vector<SchemaRef> Resolver::list_of(const SchemaRef& ref, const char* key) {
  std::vector<SchemaRef> list;
  const auto found = ref.schema->find(key);
  if (found == ref.schema->end()) return list;
  if (!found->is_array()) fail_schema(fmt::format("{}/{}", ref.where, key), "a list of schemas was expected");
  for (size_t i = 0; i < found->size(); ++i) list.push_back(child(ref, key, i));
  return list;
}

std::vector<Shape> Resolver::any_of(const SchemaRef& ref, const char* key) {
  std::vector<Shape> all;
  for (const SchemaRef& option : list_of(ref, key)) {
    std::ranges::move(alternatives(option), std::back_inserter(all));
    if (all.size() > kMostAlternatives)
      fail_schema(fmt::format("{}/{}", ref.where, key), fmt::format("there are more than {} alternatives", kMostAlternatives));
  }
  return all;
}

// Each option without the values of the other options, unless they are provably disjoint.
std::vector<Shape> Resolver::one_of(const SchemaRef& ref, uint8_t types) {
  if (const auto known = exclusive_.find(ref.schema); known != exclusive_.end()) return known->second;
  if (!in_comparison_.insert(ref.schema).second)
    return any_of(ref, "oneOf");  // a recursive schema comes back: more values, to compare with
  const std::vector<SchemaRef> options = list_of(ref, "oneOf");
  std::vector<std::vector<Shape>> shapes;
  for (const SchemaRef& option : options) shapes.push_back(alternatives(option));
  std::vector<Shape> all;
  for (size_t i = 0; i < options.size(); ++i) {
    for (Shape shape : shapes[i]) {
      shape.types = both_types(shape.types, types);
      if (shape.types == 0) continue;
      std::vector<Shape> only = {shape};
      for (size_t j = 0; j < options.size() && !only.empty(); ++j) {
        const auto is_apart = [&](const Shape& other) { return excludes(shape, other, 0); };
        if (i != j && !std::ranges::all_of(shapes[j], is_apart)) only = joined(only, without(shape, options[j]), ref.where);
      }
      std::ranges::move(only, std::back_inserter(all));
    }
    if (all.size() > kMostAlternatives)
      fail_schema(ref.where + "/oneOf", fmt::format("there are more than {} alternatives", kMostAlternatives));
  }
  if (all.empty()) fail_schema(ref.where + "/oneOf", "several options hold for every value, or it cannot be ruled out; use anyOf");
  in_comparison_.erase(ref.schema);
  return exclusive_[ref.schema] = all;
}

}  // namespace kvik::constrain
