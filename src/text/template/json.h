#pragma once

#include <string>
#include <string_view>

#include "text/template/runtime.h"

namespace kvik::text::jinja {

struct JsonStyle {
  bool ascii_only = false;
  bool sorts_keys = false;
  std::optional<std::string> indent;  // absent: on one line
  std::string item_separator, key_separator;
};
// Like Python's json.dumps.
std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

// Parses one JSON text. Numbers of any length are exact, keys keep their order, invalid UTF-8 becomes U+FFFD.
// Throws Error(kBadArgument) with a message that begins with `origin`.
Value from_json(std::string_view json, std::string_view origin);

// `text` as a JSON string, with quotes.
void append_json_text(std::string& out, std::string_view text, bool ascii_only = false);

}  // namespace kvik::text::jinja
