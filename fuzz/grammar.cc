// Any bytes as a grammar or, after a zero byte, as a regular expression: an automaton that reads the same bytes, or an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "constrain/limits.h"
#include "constrain/notation/char_dfa.h"
#include "constrain/notation/gbnf.h"
#include "constrain/states.h"
#include "kvik/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvik::constrain;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    Grammar grammar;
    if (text.starts_with('\0')) {
      const RuleId root = grammar.add_rule("root");
      grammar.define(root, CharDfa::of_part(parse_pattern(text.substr(1), "pattern"), "pattern").to_node(grammar));
    } else {
      grammar = parse_gbnf(text);
    }
    TextStates states(std::make_shared<const Automaton>(compile(grammar, "grammar")));
    Work work(kMostWorkPerMask);
    TextState* state = states.start();
    for (const char byte : text.substr(0, 200)) state = states.next(state, static_cast<uint8_t>(byte), work);
    states.next_plain(state, work);
  } catch (const kvik::Error&) {  // a correct result
  }
  return 0;
}
