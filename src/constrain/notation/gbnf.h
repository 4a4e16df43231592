#pragma once

#include <string_view>

#include "constrain/grammar.h"

namespace kvik::constrain {

// A grammar in GBNF, the format of the GGML projects: rules `name ::= …`, literals, character classes, `.`, groups, alternatives,
// repetition, comments; matching begins with the rule `root`. Throws Error(kBadArgument) with the position of an error.
Grammar parse_gbnf(std::string_view text);

}  // namespace kvik::constrain
