#pragma once

#include <string_view>

#include "constrain/grammar.h"

namespace kvik::constrain {

// The grammar of JSON texts that satisfy a JSON schema; docs/constraints.md lists the keywords and the syntax. Throws Error(kBadArgument)
// that names the position of a malformed, unsupported or contradictory part.
Grammar parse_schema(std::string_view text);

}  // namespace kvik::constrain
