#pragma once

#include <optional>

#include "kvik/constraint.h"
#include "kvik/serve.h"
#include "server/json/fields.h"

// The constraint of an answer. Compiles schemas, so it must not run on the thread of the server; their size is limited.
namespace kvik::server {

// OpenAI's "response_format": text, json_object, or json_schema.
std::optional<Constraint> read_response_format(const Fields& body, const ServeOptions& options);
// Ollama's "format": "json", or a schema.
std::optional<Constraint> read_format(const Fields& body, const ServeOptions& options);

// Throws ApiError(400) that names `field` if the schema is too large or unsupported, or if nothing can match it.
Constraint compile_schema(const Json& schema, const std::string& field, const ServeOptions& options);

}  // namespace kvik::server
