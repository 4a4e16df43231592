#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "constrain/matcher.h"
#include "kvik/constraint.h"
#include "text/tokenizer.h"

namespace kvik {

struct Constraint::State {
  std::string source;  // kind and text: equal constraints share their masks
  std::shared_ptr<const constrain::Automaton> automaton;
};

namespace api {

// The constraints that generations of one model have used most recently, with their masks. Any thread.
class ModelConstraints {
 public:
  // Throws Error(kBadArgument) for a model without a tokenizer, Error(kUnsupported) if the bytes of a token depend on its neighbors.
  std::shared_ptr<constrain::TokenConstraint> bind(const Constraint& constraint, const text::Tokenizer* tokenizer, size_t vocab_size);

 private:
  struct Entry {
    std::string source;
    std::shared_ptr<constrain::TokenConstraint> constraint;
  };
  std::mutex mutex_;
  std::optional<constrain::Vocabulary> vocabulary_;  // set when the first constraint is used
  std::list<Entry> entries_;                         // most recently used first
};

}  // namespace api
}  // namespace kvik
