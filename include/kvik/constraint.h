#pragma once

#include <memory>
#include <string_view>

#include "kvik/error.h"

// Constrained output: texts that match a JSON schema, a regular expression or a grammar. See docs/constraints.md.
namespace kvik {

// What a generated text must match. Compiled once, for models of any tokenizer; immutable, cheap to copy, used by any number of threads.
// Each step of a generation chooses among the tokens with which a match can still be reached; an end token is one of them if the text
// matches as it is. A generation ends where nothing can follow, so that every text that finishes with Finish::kStop matches, unless a stop
// text cut it off.
//
// The functions throw Error(kBadArgument), with one sentence that names the place, for what is malformed, not supported, too large, or
// cannot be matched by any text.
class Constraint {
 public:
  static Constraint json_schema(std::string_view schema);
  static Constraint json_object();                    // any JSON object
  static Constraint regex(std::string_view pattern);  // ECMAScript's notation; the whole text matches
  static Constraint grammar(std::string_view gbnf);   // GBNF; the whole text matches the rule `root`

  // Opaque: what the library reads.
  struct State;
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  explicit Constraint(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace kvik
