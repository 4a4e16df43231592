#pragma once

#include "text/template/filters.h"
#include "text/template/runtime.h"

namespace kvik::text::jinja {

// Methods of str; null if there is none of that name.
MethodBody find_text_method(std::string_view name);

// Shared with filters.
std::vector<std::string_view> split_lines(std::string_view text, bool keeps_ends = false);
std::string replace_all(Runtime& runtime, std::string_view text, std::string_view old_part, std::string_view new_part, int64_t most = -1);

}  // namespace kvik::text::jinja
