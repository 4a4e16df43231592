#include "constrain/schema/resolver.h"

#include <algorithm>
#include <fmt/format.h>

#include "constrain/limits.h"
#include "constrain/schema/read_shape.h"
#include "kvik/error.h"

namespace kvik::constrain {
namespace {

constexpr size_t kMostJoined = 500'000;  // shapes, of a whole schema

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

}  // namespace

void Resolver::add_note(const std::string& where, const std::string& why) {
  if (note_.empty()) note_ = fmt::format("{}: {}", where.empty() ? "/" : where, why);
}

SchemaRef Resolver::target_of(const SchemaRef& ref, const Json& reference) const {
  const std::string where = ref.where + "/$ref";
  if (!reference.is_string()) fail_schema(where, "a text was expected");
  const auto text = reference.get<std::string>();
  if (!text.starts_with('#') || (text.size() > 1 && text[1] != '/'))
    fail_schema(where, fmt::format("'{}' is not supported; a reference within the schema (#/…) was expected", text));
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

std::vector<Shape> Resolver::joined(const std::vector<Shape>& a, const std::vector<Shape>& b, const std::string& where) {
  std::vector<Shape> all;
  n_joined_ += a.size() * b.size();
  if (n_joined_ > kMostJoined) fail_schema(where, "the schema combines too many alternatives");
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
  if (!schema.is_object()) fail_schema(ref.where, "a schema was expected: an object, true or false");
  if (std::ranges::find(open_, &schema) != open_.end())
    fail_schema(ref.where, "the schema refers to itself without a property or element in between");
  if (open_.size() >= static_cast<size_t>(kMostNesting))
    fail_schema(ref.where, fmt::format("references are nested more than {} deep", kMostNesting));
  open_.push_back(&schema);
  std::vector<Shape> found = {read_shape(ref)};
  if (const auto reference = schema.find("$ref"); reference != schema.end())
    found = joined(found, alternatives(target_of(ref, *reference)), ref.where);
  if (const auto all = schema.find("allOf"); all != schema.end()) {
    if (!all->is_array()) fail_schema(ref.where + "/allOf", "a list of schemas was expected");
    for (size_t i = 0; i < all->size(); ++i) found = joined(found, alternatives(child(ref, "allOf", i)), ref.where);
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    if (schema.contains(key)) found = joined(found, options_of(ref, key), ref.where);
  }
  open_.pop_back();
  if (const auto nullable = schema.find("nullable"); nullable != schema.end() && *nullable == Json(true))
    found.push_back(Shape{.where = ref.where, .types = kNull});
  return found;
}

std::vector<Shape> Resolver::options_of(const SchemaRef& ref, const std::string& key) {
  const Json& list = ref.schema->at(key);
  if (!list.is_array() || list.empty()) fail_schema(ref.where + "/" + key, "a list of schemas was expected");
  std::vector<std::vector<Shape>> options;
  std::vector<Shape> all;
  for (size_t i = 0; i < list.size(); ++i) {
    options.push_back(alternatives(child(ref, key, i)));
    all.insert(all.end(), options.back().begin(), options.back().end());
    if (all.size() > kMostAlternatives)
      fail_schema(ref.where + "/" + key, fmt::format("there are more than {} alternatives", kMostAlternatives));
  }
  if (key == "oneOf") check_exclusive(ref, options);
  return all;
}

void Resolver::check_exclusive(const SchemaRef& ref, const std::vector<std::vector<Shape>>& options) {
  if (!checked_.insert(ref.schema).second) return;  // also if it is being checked: recursive schemas come back
  for (size_t i = 0; i < options.size(); ++i) {
    for (size_t j = 0; j < options.size(); ++j) {
      if (i == j) continue;
      for (const Shape& a : options[i]) {
        for (const Shape& b : options[j]) {
          if (!excludes(a, b, 0))
            fail_schema(ref.where + "/oneOf",
                        fmt::format("options {} and {} may both hold for one value, which cannot be ruled out; use anyOf", std::min(i, j),
                                    std::max(i, j)));
        }
      }
    }
  }
}

}  // namespace kvik::constrain
