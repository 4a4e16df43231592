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

// A pattern as several that must all match: each lookahead directly after a leading ^ becomes a separate pattern.
struct SplitPattern {
  std::string rest;
  std::vector<Lookahead> conditions;
};

// Lookahead in other positions stays in the pattern, where it is not supported.
SplitPattern split_lookahead(std::string_view pattern);

}  // namespace kvik::constrain
