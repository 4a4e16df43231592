#pragma once

#include <string>

#include "constrain/schema/shape.h"

namespace kvik::constrain {

[[noreturn]] void fail_schema(const std::string& where, const std::string& why);

// Reads a schema's own keywords, without $ref, allOf, anyOf, oneOf and nullable. Throws Error(kBadArgument) for a keyword that is
// unsupported or has an invalid value.
Shape read_shape(const SchemaRef& ref);

// The schema at a JSON pointer below another.
SchemaRef child(const SchemaRef& of, const std::string& key);
SchemaRef child(const SchemaRef& of, const std::string& key, size_t index);

}  // namespace kvik::constrain
