#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvik::text {

// A character class for PCRE2: items inside brackets, and other patterns of one character each, joined by |. PCRE2 has neither nested
// classes nor intersections; both are expressed by alternatives and lookahead.
struct CharacterSet {
  std::string items;
  std::string others;  // "|x|y"
  void add_not(const std::string& other_items);
  void add_literal(char32_t c);
  void add_range(char32_t from, char32_t to);
  void add(const CharacterSet& other);
  // A pattern for one character of the set, or of its complement.
  std::string pattern(bool negated) const;
};

// \s, \w, \d, \h and their capitals; false for any other letter.
bool add_named_class(CharacterSet& set, char letter);
// The name inside \p{…}; `negated` for \P and \p{^…}.
void add_property(CharacterSet& set, std::string_view name, bool negated);
// The bracket expression at pattern[at] == '['; moves `at` past it.
std::string translate_bracket(std::string_view pattern, size_t& at);
// The number after \x, \u or \o, or a single-character escape such as \n, at pattern[at], the character after the backslash.
// Moves `at` past it. False if it is neither.
bool read_escaped_character(std::string_view pattern, size_t& at, char32_t& c);
// The name in braces after pattern[at] == 'p' or 'P'; moves `at` past the closing brace. False if there are no braces.
bool read_property_name(std::string_view pattern, size_t& at, std::string& name, bool& negated);

}  // namespace kvik::text
