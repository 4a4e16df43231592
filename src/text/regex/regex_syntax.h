#pragma once

#include <string>
#include <string_view>

namespace kvik::text {

// Translates a pattern from Oniguruma's syntax, which tokenizer files use, to PCRE2 (UTF, UCP, MULTILINE). `pattern` is valid UTF-8.
// Throws Error(kUnsupported) for features that PCRE2 lacks; syntax errors are left for PCRE2 to report.
std::string to_pcre2(std::string_view pattern);

}  // namespace kvik::text
