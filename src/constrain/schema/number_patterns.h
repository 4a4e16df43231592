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

// Numbers of a range by their digits, without an exponent.
struct NumberTexts {
  std::vector<CharDfa> positive;  // and 0
  std::vector<CharDfa> negative;  // without the sign
};

// The smallest common multiple of two texts of `multipleOf`, if both are integers; else one that is not supported.
std::string common_multiple(const std::string& a, const std::string& b);

// Exactly those of the range, with at most as many digits as JsonRules. Throws Error(kBadArgument), with `where`, for bounds of more than
// 18 digits and for multiples other than of integers up to 10000: what others are depends on how a validator rounds.
NumberTexts integers_in(const NumberRange& range, const std::string& where);
NumberTexts numbers_in(const NumberRange& range, const std::string& where);

}  // namespace kvik::constrain
