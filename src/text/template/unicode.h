#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvik::text::jinja {

// Text is valid UTF-8; positions are in bytes, "points" are code points.

size_t count_points(std::string_view text);
// The code point at byte `at`, which moves past it.
char32_t next_point(std::string_view text, size_t& at);
// The code point that ends before byte `at`, which moves to its start.
char32_t previous_point(std::string_view text, size_t& at);
void append_point(std::string& text, char32_t point);
// The byte where code point number `point` starts; the size of the text if there are fewer.
size_t byte_of_point(std::string_view text, size_t point);

// Properties of code points as in Python's str methods.
bool is_space(char32_t point);
bool is_alpha(char32_t point);
bool is_digit(char32_t point);
bool is_numeric(char32_t point);
bool is_alnum(char32_t point);
bool is_printable(char32_t point);
bool is_upper(char32_t point);
bool is_lower(char32_t point);
bool is_title(char32_t point);
bool is_cased(char32_t point);
bool is_identifier_start(char32_t point);
bool is_identifier_part(char32_t point);
int decimal_value(char32_t point);  // -1 if it is not a decimal digit

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string to_title(std::string_view text);     // str.title: a capital after every uncased character
std::string capitalized(std::string_view text);  // the first character in title case, the others in lower case
// By Unicode name ("BULLET"); 0 if there is none.
char32_t point_by_name(std::string_view name);

// Strips code points in `chars`; white space if `chars` is null.
std::string_view strip_left(std::string_view text, const std::string_view* chars = nullptr);
std::string_view strip_right(std::string_view text, const std::string_view* chars = nullptr);

}  // namespace kvik::text::jinja
