#pragma once

#include <string_view>
#include <vector>

#include "server/chat/tool_format.h"

namespace kvik::server {

// The calls in a value of this format that ends too early. The last one has as much of its arguments as there is; one whose name is not
// complete, or is not among `names`, is left out.
std::vector<ToolCall> begun_calls(std::string_view text, const ToolFormat& format, const std::vector<std::string>& names);

}  // namespace kvik::server
