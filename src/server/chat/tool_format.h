#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/text.h"
#include "server/json/fields.h"

namespace kvik::server {

// How the model of a chat template writes calls of tools, read from what the template itself makes of a call.
struct ToolFormat {
  std::string prefix;             // before the JSON, without spaces at its ends: "<tool_call>"; may be empty
  std::string suffix;             // after it, up to the end of the turn: "</tool_call>"; may be empty
  bool is_list = false;           // the JSON is a list of calls
  std::string outer_key;          // {"function": {…}}: the key of the object that has the two below; often empty
  std::string name_key;           // "name"
  std::string arguments_key;      // "arguments", "parameters"
  bool quotes_arguments = false;  // arguments are a text that contains JSON

  // Nothing if the template has no tools, or does not write a call as JSON.
  static std::optional<ToolFormat> derive(const ChatTemplate& chat_template);

  // The schema of one call of one of these tools ({"name", "parameters"} each), as this format writes it.
  Json schema_of(const std::vector<Json>& functions) const;
};

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
};

// The calls in a value of this format; nothing if it is not calls of known tools alone.
std::optional<std::vector<ToolCall>> calls_in(const Json& value, const ToolFormat& format, const std::vector<std::string>& names);

}  // namespace kvik::server
