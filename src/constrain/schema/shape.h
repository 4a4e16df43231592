#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "constrain/schema/number_patterns.h"

namespace kvik::constrain {

// A schema within the document, and its JSON pointer for messages.
struct SchemaRef {
  const Json* schema = nullptr;
  std::string where;
};

// Several schemas that must all hold.
using Conjunction = std::vector<SchemaRef>;

enum Type : uint8_t { kNull = 1, kBoolean = 2, kInteger = 4, kNumber = 8, kString = 16, kArray = 32, kObject = 64, kAllTypes = 127 };

// `properties`, `patternProperties` and `additionalProperties` of one schema: the last applies to names that match neither of the others.
struct ObjectPart {
  std::vector<std::pair<std::string, SchemaRef>> properties;
  std::vector<std::pair<std::string, SchemaRef>> patterns;
  std::optional<SchemaRef> additional;
  bool evaluates = true;        // for unevaluatedProperties; false for a schema inside `not`
  bool is_unevaluated = false;  // from unevaluatedProperties itself

  const SchemaRef* find(const std::string& name) const;
};

struct ArrayPart {
  std::vector<SchemaRef> prefix;
  std::optional<SchemaRef> items;  // after the prefix
  bool evaluates = true;           // as in ObjectPart
  bool is_unevaluated = false;
};

// `contains`: how many elements must satisfy a schema.
struct ContainsPart {
  SchemaRef schema;
  int least = 1, most = -1;
};

// A pattern that a string must match.
struct StringPattern {
  std::string pattern;
  std::string where;
  bool whole = false;    // false: a part of the string matches
  bool negated = false;  // it must not match
};

// The restrictions of one alternative of a schema, with references, allOf, anyOf and oneOf resolved on this level.
struct Shape {
  std::string where;
  std::vector<SchemaRef> sources;  // the schemas whose keywords are combined here
  uint8_t types = kAllTypes;       // kNumber includes kInteger
  bool has_values = false;
  std::vector<const Json*> values;  // enum, const

  NumberRange numbers;
  int min_length = 0, max_length = -1;
  std::vector<StringPattern> patterns;
  int min_items = 0, max_items = -1;
  bool unique_items = false;
  std::vector<ArrayPart> arrays;
  std::vector<ContainsPart> contains;
  int min_properties = 0, max_properties = -1;
  std::vector<ObjectPart> objects;
  std::vector<std::string> required;
  std::vector<std::string> forbidden;  // names of properties
  Conjunction property_names;
  bool is_narrowed = false;  // by unevaluated…: more values satisfy the schema, because options that were not chosen may evaluate more

  // Adds the restrictions of another shape.
  void join(const Shape& other);
  // Names that are listed or required and not forbidden, in this order.
  std::vector<std::string> names() const;
  // Whether unlisted names may be written. False if properties are listed and the schema does not mention others.
  bool is_open() const;
  // The schemas that the value of a property, or an element, must satisfy.
  Conjunction value_of(const std::string& name) const;
  Conjunction element(size_t index) const;
  // Properties or items that no part evaluates must satisfy a schema.
  void add_unevaluated_properties(const SchemaRef& schema);
  void add_unevaluated_items(const SchemaRef& schema);
  Shape without_unevaluated() const;
};

uint8_t both_types(uint8_t a, uint8_t b);

}  // namespace kvik::constrain
