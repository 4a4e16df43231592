#pragma once

#include <string>
#include <string_view>

#include "text/template/runtime.h"

namespace kvik::text::jinja {

struct JsonStyle {
  bool ascii_only = false;
  bool sorts_keys = false;
  std::optional<std::string> indent;  // on one line when absent
  std::string item_separator, key_separator;
};
// As Python's json.dumps writes it.
std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

// Reads one JSON text. Numbers of any length stay what they are, keys keep their order, ill-formed UTF-8 becomes U+FFFD.
// Throws Error(kBadArgument) that begins with `origin`.
Value from_json(std::string_view json, std::string_view origin);

// `text` with quotes, as one JSON string.
void append_json_text(std::string& out, std::string_view text, bool ascii_only = false);

}  // namespace kvik::text::jinja
