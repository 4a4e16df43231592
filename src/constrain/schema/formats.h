#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvik::constrain {

// The pattern that texts of a format match as a whole; nothing if the format is not supported.
std::optional<std::string> pattern_of_format(std::string_view format);
std::string supported_formats();  // "date, time, …"
// Whether a format says nothing about what is written: those of numbers that are wider than it, and OpenAPI's for any text.
bool is_annotation_format(std::string_view format);

}  // namespace kvik::constrain
