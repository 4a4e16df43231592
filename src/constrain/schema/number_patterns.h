#pragma once

#include <optional>
#include <string>
#include <vector>

#include "constrain/notation/char_dfa.h"

namespace kvik::constrain {

// A bound of a number.
struct Bound {
  std::string text;  // as JSON
  double value = 0;
  bool exclusive = false;
};

struct NumberRange {
  std::optional<Bound> least, most;
  std::optional<std::string> multiple_of;  // as JSON

  bool is_open() const { return !least && !most && !multiple_of; }
};

// The numbers of a range as decimal texts without an exponent.
struct NumberTexts {
  std::vector<CharDfa> positive;  // and 0
  std::vector<CharDfa> negative;  // without the sign
};

// The smallest common multiple of two values of `multipleOf`, as JSON, if both are supported; else an unsupported one.
std::string common_multiple(const std::string& a, const std::string& b);

// Exactly the numbers of the range with at most as many digits as in JsonRules. Throws Error(kBadArgument), with `where`, for bounds of
// more than 18 digits and for multiples of a number with more than four digits before or after the point. If a number has no exact binary
// form (0.01), only multiples that are valid in both decimal and binary arithmetic are included, and there must be a minimum and a maximum.
NumberTexts integers_in(const NumberRange& range, const std::string& where);
NumberTexts numbers_in(const NumberRange& range, const std::string& where);

}  // namespace kvik::constrain
