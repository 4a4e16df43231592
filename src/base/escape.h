#pragma once

#include <string>
#include <string_view>

namespace kvik {

// Text that is safe to show on a terminal, whatever a path or a name inside it contains. Control characters (ASCII and C1), bidirectional
// overrides, line separators, invisible characters and bytes that are not UTF-8 become escapes such as \n, \x1b and \u202e. All other
// text, backslashes included, is unchanged, so escaping twice is the same as escaping once.
std::string escape_controls(std::string_view text);

}  // namespace kvik
