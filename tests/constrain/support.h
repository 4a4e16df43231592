#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "constrain/automaton.h"
#include "constrain/limits.h"
#include "constrain/notation/char_dfa.h"
#include "constrain/notation/gbnf.h"
#include "constrain/schema/schema.h"
#include "constrain/states.h"
#include "kvik/error.h"

namespace kvik::constrain {

// A constraint that texts are read with byte by byte.
class TextReader {
 public:
  explicit TextReader(const Grammar& grammar) : states_(std::make_shared<const Automaton>(compile(grammar, "grammar"))) {}
  static TextReader of_gbnf(std::string_view text) { return TextReader(parse_gbnf(text)); }
  static TextReader of_schema(std::string_view text) { return TextReader(parse_schema(text)); }

  bool accepts(std::string_view text) { return state_after(text)->complete(); }
  bool begins_match(std::string_view text) { return !state_after(text)->is_dead(); }
  bool must_end(std::string_view text) { return state_after(text)->only_end(); }
  TextStates& states() { return states_; }

  TextState* state_after(std::string_view text) {
    Work work(kMostWorkPerMask);
    TextState* state = states_.start();
    for (const char byte : text) state = states_.next(state, static_cast<uint8_t>(byte), work);
    return state;
  }

 private:
  TextStates states_;
};

// The sentence of the error that a call ends with.
template <class Fn>
std::string error_in(Fn fn) {
  try {
    fn();
    return "no error";
  } catch (const Error& e) { return e.what(); }
}

}  // namespace kvik::constrain
