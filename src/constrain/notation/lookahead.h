#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvik::constrain {

// A condition on the beginning of a text.
struct Lookahead {
  std::string pattern;   // matches the beginning of the text: "^(?:…)"
  bool negated = false;  // it must not match
};

// A pattern as several that must hold together: lookahead right behind ^ at the beginning of a pattern is a pattern of its own.
struct SplitPattern {
  std::string rest;
  std::vector<Lookahead> conditions;
};

// Lookahead in other places stays where it is, and is not supported there.
SplitPattern split_lookahead(std::string_view pattern);

}  // namespace kvik::constrain
