#pragma once

#include "constrain/notation/char_dfa.h"
#include "constrain/schema/shape.h"

namespace kvik::constrain {

// The strings that a pattern matches, and those that a shape allows. Throws Error(kBadArgument) past a limit.
CharDfa dfa_of(const StringPattern& pattern);
// Checks only that the pattern can be parsed, without building its automaton.
void check_pattern(const StringPattern& pattern);
CharDfa string_values(const Shape& shape);

}  // namespace kvik::constrain
