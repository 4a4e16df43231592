#include "constrain/schema/string_values.h"

namespace kvik::constrain {

CharDfa dfa_of(const StringPattern& pattern) {
  const std::string what = "pattern at " + pattern.where + " of the JSON schema";
  const PatternNfa nfa = parse_pattern(pattern.pattern, what);
  const CharDfa dfa = pattern.whole ? CharDfa::of_whole(nfa, what) : CharDfa::of_part(nfa, what);
  return pattern.negated ? dfa.complement() : dfa;
}

CharDfa string_values(const Shape& shape) {
  CharDfa values = CharDfa::of_lengths(shape.min_length, shape.max_length);
  for (const StringPattern& pattern : shape.patterns) values = values.intersect(dfa_of(pattern));
  return values;
}

}  // namespace kvik::constrain
