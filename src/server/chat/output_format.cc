#include "server/chat/output_format.h"

#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::server {

Constraint compile_schema(const Json& schema, const std::string& field, const ServeOptions& options) {
  const std::string text = dump(schema);
  if (text.size() > options.max_schema_bytes)
    throw ApiError(400, "", fmt::format("'{}' has {} bytes; this server takes {}", field, text.size(), options.max_schema_bytes), field);
  try {
    return Constraint::json_schema(text);
  } catch (const Error& e) { throw ApiError(400, "invalid_schema", fmt::format("'{}': {}", field, e.what()), field); }
}

std::optional<Constraint> read_response_format(const Fields& body, const ServeOptions& options) {
  const std::optional<Fields> format = body.object("response_format");
  if (!format) return std::nullopt;
  const std::string type = format->required_text("type");
  if (type == "text") return std::nullopt;
  if (type == "json_object") return Constraint::json_object();
  if (type != "json_schema") format->fail("type", "\"text\", \"json_object\" or \"json_schema\"");
  const std::optional<Fields> outer = format->object("json_schema");
  if (!outer) format->fail("json_schema", "an object");
  const Json* const schema = outer->find("schema");
  if (schema == nullptr) outer->fail("schema", "a JSON schema");
  return compile_schema(*schema, outer->path_of("schema"), options);
}

std::optional<Constraint> read_format(const Fields& body, const ServeOptions& options) {
  const Json* const format = body.find("format");
  if (format == nullptr || *format == "") return std::nullopt;
  if (*format == "json") return Constraint::json_object();
  if (!format->is_object()) body.fail("format", "\"json\" or a JSON schema");
  return compile_schema(*format, "format", options);
}

}  // namespace kvik::server
