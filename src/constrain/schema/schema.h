#pragma once

#include <string_view>

#include "constrain/grammar.h"

namespace kvik::constrain {

// JSON texts that satisfy a JSON schema; docs/constraints.md says which keywords and how texts are spelled. Throws Error(kBadArgument) that
// names the place of what is malformed, not supported or impossible.
Grammar parse_schema(std::string_view text);

}  // namespace kvik::constrain
