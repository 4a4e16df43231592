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

// All of several schemas.
using Conjunction = std::vector<SchemaRef>;

enum Type : uint8_t { kNull = 1, kBoolean = 2, kInteger = 4, kNumber = 8, kString = 16, kArray = 32, kObject = 64, kAllTypes = 127 };

// `properties` and what goes with it, of one schema: additionalProperties counts for names that this schema does not have.
struct ObjectPart {
  std::vector<std::pair<std::string, SchemaRef>> properties;
  std::vector<std::pair<std::string, SchemaRef>> patterns;
  std::optional<SchemaRef> additional;
  bool evaluates = true;        // for unevaluatedProperties; not what comes from `not`
  bool is_unevaluated = false;  // it is from that keyword

  const SchemaRef* find(const std::string& name) const;
};

struct ArrayPart {
  std::vector<SchemaRef> prefix;
  std::optional<SchemaRef> items;  // behind the prefix
  bool evaluates = true;           // as in ObjectPart
  bool is_unevaluated = false;
};

// `contains`: how many elements satisfy a schema.
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

// What one alternative of a schema says, with references, allOf, anyOf and oneOf resolved on this level.
struct Shape {
  std::string where;
  std::vector<SchemaRef> sources;  // whose own keywords are joined here
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

  // Both at once.
  void join(const Shape& other);
  // Names that are listed or required and not forbidden, in this order.
  std::vector<std::string> names() const;
  // Whether names that are not listed may be written. Not if properties are listed and nothing is said about others.
  bool is_open() const;
  // What the value of a property must satisfy; what an element must.
  Conjunction value_of(const std::string& name) const;
  Conjunction element(size_t index) const;
  // What the parts do not evaluate must satisfy a schema.
  void add_unevaluated_properties(const SchemaRef& schema);
  void add_unevaluated_items(const SchemaRef& schema);
  Shape without_unevaluated() const;
};

uint8_t both_types(uint8_t a, uint8_t b);

}  // namespace kvik::constrain
