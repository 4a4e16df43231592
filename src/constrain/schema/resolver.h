#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "constrain/schema/shape.h"

namespace kvik::constrain {

// Resolves keywords that refer to other schemas on the same level: references, allOf, anyOf, oneOf. One thread.
class Resolver {
 public:
  explicit Resolver(const Json& document) : document_(document) {}

  // The alternatives of one schema, or of several that must all hold. Empty: no value satisfies it, and note() gives the reason. Throws
  // Error(kBadArgument) for unsupported schemas.
  std::vector<Shape> alternatives(const SchemaRef& ref);
  std::vector<Shape> alternatives(const Conjunction& all);

  // Whether a value satisfies a schema.
  bool satisfies(const Json& value, const SchemaRef& ref) { return satisfies(value, ref, 0); }
  bool satisfies(const Json& value, const Conjunction& all);
  bool satisfies_shape(const Json& value, const Shape& shape, int depth = 0);

  // The distinct values that satisfy several schemas, if the schemas list values (enum, const).
  std::optional<std::vector<const Json*>> listed_values(const Conjunction& all);

  // The schema that is satisfied by the values that do not satisfy `ref`.
  SchemaRef negation_of(const SchemaRef& ref);

  // The first contradiction found.
  const std::string& note() const { return note_; }
  void add_note(const std::string& where, const std::string& why);

 private:
  SchemaRef target_of(const SchemaRef& ref, const Json& reference);
  // Reads a schema's own keywords. Until close(), a reference back to it is an error.
  Shape open(const SchemaRef& ref);
  void close() { open_.pop_back(); }
  bool is_nullable(const Json& schema) const;
  // The schemas in a keyword's list; empty if it is absent.
  static std::vector<SchemaRef> list_of(const SchemaRef& ref, const char* key);
  std::vector<Shape> any_of(const SchemaRef& ref, const char* key);
  std::vector<Shape> one_of(const SchemaRef& ref, uint8_t types);
  void add_work(size_t n, const std::string& where);  // throws past the limit
  std::vector<Shape> joined(const std::vector<Shape>& a, const std::vector<Shape>& b, const std::string& where);
  bool satisfies(const Json& value, const SchemaRef& ref, int depth);
  bool satisfies_object(const Json& value, const Shape& shape, int depth);

  // Alternatives whose values do not satisfy a schema; incomplete if it uses a keyword that cannot be negated. `names`: properties that may
  // be written.
  std::vector<Shape> complement(const SchemaRef& ref, const std::vector<std::string>& names);
  // The values of a shape that do not satisfy a schema, or only those that differ in the value of a required property.
  std::vector<Shape> without(const Shape& shape, const SchemaRef& ref);
  static void add_complement_of_limits(const Shape& own, const std::function<void(Shape)>& add);
  std::vector<Shape> conditional(const SchemaRef& ref, const std::vector<std::string>& names);
  std::vector<Shape> dependent(const SchemaRef& ref, const std::string& name);

  // Whether it is certain that no value satisfies both.
  bool excludes(const Shape& a, const Shape& b, int depth);
  bool excludes_object(const Shape& a, const Shape& b, int depth);
  bool excludes_all(const Conjunction& a, const Conjunction& b, int depth);

  const Json& document_;
  std::map<std::string, SchemaRef> named_;               // by $anchor and $id; filled at the first use
  std::vector<const Json*> open_;                        // schemas that are being resolved
  std::map<const Json*, std::vector<Shape>> exclusive_;  // the alternatives of a schema's oneOf
  std::set<const Json*> in_comparison_;                  // schemas whose oneOf is being compared
  std::map<const Json*, const Json*> negations_;
  std::deque<Json> made_;  // schemas that were created here
  size_t work_ = 0;
  std::string note_;
};

}  // namespace kvik::constrain
