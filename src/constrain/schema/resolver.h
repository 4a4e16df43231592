#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "constrain/schema/shape.h"

namespace kvik::constrain {

// Resolves what refers to other schemas on one level: references, allOf, anyOf, oneOf. One thread.
class Resolver {
 public:
  explicit Resolver(const Json& document) : document_(document) {}

  // The alternatives of a schema, of all of several. None: nothing satisfies it, and note() says why. Throws Error(kBadArgument) for what
  // is not supported, and if the options of oneOf cannot be shown to exclude each other.
  std::vector<Shape> alternatives(const SchemaRef& ref);
  std::vector<Shape> alternatives(const Conjunction& all);

  // Whether a value satisfies a schema.
  bool satisfies(const Json& value, const SchemaRef& ref) { return satisfies(value, ref, 0); }
  bool satisfies(const Json& value, const Conjunction& all);
  bool satisfies_shape(const Json& value, const Shape& shape, int depth = 0);

  // The first contradiction that was found.
  const std::string& note() const { return note_; }
  void add_note(const std::string& where, const std::string& why);

 private:
  SchemaRef target_of(const SchemaRef& ref, const Json& reference) const;
  std::vector<Shape> options_of(const SchemaRef& ref, const std::string& key);
  std::vector<Shape> joined(const std::vector<Shape>& a, const std::vector<Shape>& b, const std::string& where);
  bool satisfies(const Json& value, const SchemaRef& ref, int depth);
  bool satisfies_object(const Json& value, const Shape& shape, int depth);

  // Whether no text that is written for one satisfies the other.
  void check_exclusive(const SchemaRef& ref, const std::vector<std::vector<Shape>>& options);
  bool excludes(const Shape& written, const Shape& other, int depth);
  bool excludes_object(const Shape& written, const Shape& other, int depth);
  bool excludes_all(const Conjunction& written, const Conjunction& other, int depth);

  const Json& document_;
  std::vector<const Json*> open_;  // schemas that are being resolved
  std::set<const Json*> checked_;  // schemas whose oneOf was
  size_t n_joined_ = 0;
  std::string note_;
};

}  // namespace kvik::constrain
