#include "constrain/schema/schema.h"

#include <fmt/format.h>

#include "constrain/limits.h"
#include "constrain/schema/compiler.h"
#include "constrain/schema/read_shape.h"
#include "kvik/error.h"

namespace kvik::constrain {
namespace {

// Before it is parsed: what is nested too deep would not be safe to walk through.
void check_nesting(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > 4 * kMostNesting)
        throw Error(Code::kBadArgument, fmt::format("the JSON schema is nested more than {} deep", 4 * kMostNesting));
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

Json parse(std::string_view text) {
  if (text.size() > kMostTextBytes)
    throw Error(Code::kBadArgument, fmt::format("the JSON schema has {} bytes; at most {} are accepted", text.size(), kMostTextBytes));
  check_nesting(text);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& e) {
    throw Error(Code::kBadArgument, fmt::format("the JSON schema is not valid JSON at byte {} of {}", e.byte, text.size()));
  } catch (const Json::exception& e) { throw Error(Code::kBadArgument, fmt::format("the JSON schema is not valid JSON ({})", e.what())); }
}

}  // namespace

Grammar parse_schema(std::string_view text) {
  const Json document = parse(text);
  if (!document.is_object() && !document.is_boolean()) fail_schema("", "a schema was expected: an object, true or false");
  return SchemaCompiler(document).compile();
}

}  // namespace kvik::constrain
