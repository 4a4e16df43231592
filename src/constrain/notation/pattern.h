#pragma once

#include <string_view>
#include <vector>

#include "constrain/char_set.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

// A regular expression as an automaton over characters.
struct PatternNfa {
  enum class Kind : uint8_t { kChars, kEmpty, kAtStart, kAtEnd };
  struct Edge {
    uint32_t from, to;
    Kind kind = Kind::kEmpty;
    uint32_t set = 0;  // kChars
  };
  uint32_t n_states = 2;  // 0: start, 1: end
  std::vector<Edge> edges;
  std::vector<CharSet> sets;
};

// If ECMAScript and Python interpret a pattern differently: texts that match in both, or in at least one.
enum class Dialects { kBoth, kEither };

// ECMAScript syntax without lookaround, backreferences and word boundaries, which a finite automaton cannot match, and without \p. Throws
// Error(kBadArgument) with the position; `what` names the pattern.
PatternNfa parse_pattern(std::string_view pattern, std::string_view what, Dialects dialects = Dialects::kBoth);

}  // namespace kvik::constrain
