#pragma once

#include <string_view>
#include <vector>

#include "server/chat/tool_format.h"

namespace kvik::server {

// The calls in an incomplete value of this format. The last one has the arguments so far; a call whose name is incomplete or not among
// `names` is left out.
std::vector<ToolCall> begun_calls(std::string_view text, const ToolFormat& format, const std::vector<std::string>& names);

}  // namespace kvik::server
