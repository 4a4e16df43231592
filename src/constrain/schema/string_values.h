#pragma once

#include "constrain/notation/char_dfa.h"
#include "constrain/schema/shape.h"

namespace kvik::constrain {

// The strings that a pattern matches, and those that a shape allows. Throws Error(kBadArgument) past a limit.
CharDfa dfa_of(const StringPattern& pattern);
// Checks only that the pattern can be parsed, without building its automaton.
void check_pattern(const StringPattern& pattern);
CharDfa string_values(const Shape& shape);
// The same, but of fewer characters if the maximal length of the shape would need too many states: those are enough to write.
CharDfa strings_to_write(const Shape& shape);

}  // namespace kvik::constrain
