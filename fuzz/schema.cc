// Any bytes as a JSON schema: an automaton that finds masks for a few tokens, or an Error, within the limits.
#include "constrain/schema/schema.h"

#include <cstddef>
#include <cstdint>

#include "constrain/matcher.h"
#include "kvik/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvik::constrain;
  static const auto kTexts = std::make_shared<const TokenTexts>(
      std::vector<std::string>{"{", "}", "[",  "]", "\"",   ":",     ",",    " ",  "a",    "name", "\": ", "\", \"",
                               "1", "-", ".5", "e", "true", "false", "null", "\\", "\n  ", "\xC3", "\xA9"},
      23);
  try {
    const auto automaton =
        std::make_shared<const Automaton>(compile(parse_schema({reinterpret_cast<const char*>(data), size}), "JSON schema"));
    Matcher matcher(std::make_shared<TokenConstraint>(automaton, Vocabulary{kTexts, kTexts}));
    for (size_t step = 0; step < 40 && !matcher.must_end(); ++step) {
      const Allowed allowed = matcher.allowed();
      kvik::TokenId token = static_cast<kvik::TokenId>((step * 7 + size) % kTexts->vocab_size());
      for (size_t i = 0; i < kTexts->vocab_size() && !allowed.tokens->contains(token); ++i)
        token = static_cast<kvik::TokenId>((static_cast<size_t>(token) + 1) % kTexts->vocab_size());
      if (allowed.tokens->contains(token) != matcher.accept(token)) __builtin_trap();
    }
  } catch (const kvik::Error&) {  // a correct result
  }
  return 0;
}
