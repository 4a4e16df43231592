#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/runtime.h"

namespace kvik::text::jinja {

// Linear in the worst case.
size_t find_text(std::string_view text, std::string_view wanted, size_t from = 0);
size_t rfind_text(std::string_view text, std::string_view wanted);

// str.split and str.rsplit, at most `most` times; the parts are views of `text`.
std::vector<std::string_view> split_at_space(std::string_view text, size_t most, bool from_right);
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, size_t most, bool from_right);

// The part of a text selected by the parameters `first` and `first + 1` (start and end, in code points); nothing if start is past end, so
// that not even "" is found.
std::optional<std::string_view> search_range(const Value& text, const Parameters& given, size_t first);

}  // namespace kvik::text::jinja
