#pragma once

#include <memory>
#include <string_view>

#include "kvik/error.h"

// Constrained output: texts that match a JSON schema, a regular expression or a grammar. See docs/constraints.md.
namespace kvik {

// A format that generated text must match. It is compiled once and works with models of any tokenizer; immutable, cheap to copy, and safe
// to use from many threads. At each step only tokens that can still lead to a match are allowed; an end token is allowed if the text
// already matches. A generation ends when no token can follow, so every text that finishes with Finish::kStop matches, unless it was cut
// off by a stop text.
//
// The functions throw Error(kBadArgument) if the constraint is malformed, unsupported or too large, or if no text can match it. The
// message names the position.
class Constraint {
 public:
  static Constraint json_schema(std::string_view schema);
  static Constraint json_object();                    // any JSON object
  static Constraint regex(std::string_view pattern);  // ECMAScript syntax; must match the whole text
  static Constraint grammar(std::string_view gbnf);   // GBNF; the rule `root` must match the whole text

  // Opaque: used by the library.
  struct State;
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  explicit Constraint(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace kvik
