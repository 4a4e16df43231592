#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvik::constrain {

// The pattern that a whole text of this format matches; nothing if the format is not supported.
std::optional<std::string> pattern_of_format(std::string_view format);
std::string supported_formats();  // "date, time, …"
// Whether a format restricts nothing: OpenAPI's formats of numbers at least as wide as those written here, and of arbitrary strings.
bool is_annotation_format(std::string_view format);

}  // namespace kvik::constrain
