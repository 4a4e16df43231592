#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvik/text.h"
#include "server/json/fields.h"

namespace kvik::server {

// How a model writes tool calls, inferred from how its chat template renders one.
struct ToolFormat {
  std::string prefix;             // before the JSON, without spaces at its ends: "<tool_call>"; may be empty
  std::string suffix;             // after it, up to the end of the turn: "</tool_call>"; may be empty
  bool is_list = false;           // the JSON is a list of calls
  std::string outer_key;          // {"function": {…}}: the key of the object with the next two; often empty
  std::string name_key;           // "name"
  std::string arguments_key;      // "arguments", "parameters"
  bool quotes_arguments = false;  // arguments are a string that contains JSON

  // Nothing if the template does not support tools or does not write calls as JSON.
  static std::optional<ToolFormat> derive(const ChatTemplate& chat_template);

  // The schema of a call of one of these functions ({"name", "parameters"} each) in this format.
  Json schema_of(const std::vector<Json>& functions) const;
};

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON
};

// The calls in a value of this format; nothing if it contains anything but calls of known tools.
std::optional<std::vector<ToolCall>> calls_in(const Json& value, const ToolFormat& format, const std::vector<std::string>& names);

}  // namespace kvik::server
