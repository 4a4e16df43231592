#pragma once

#include <string>
#include <string_view>

namespace kvik::text {

// Tokenizer files write their patterns for Oniguruma; this gives the pattern that means the same to PCRE2 (UTF, UCP, MULTILINE).
// `pattern` is valid UTF-8. Throws Error(kUnsupported) for what PCRE2 cannot say; a plain mistake is left for PCRE2 to report.
std::string to_pcre2(std::string_view pattern);

}  // namespace kvik::text
