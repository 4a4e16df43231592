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
  std::string source;  // its kind and text: constraints with the same one share their masks
  std::shared_ptr<const constrain::Automaton> automaton;
};

namespace api {

// The constraints that generations of one model have used last, with their masks. Any thread.
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
  std::optional<constrain::Vocabulary> vocabulary_;  // once a constraint was used
  std::list<Entry> entries_;                         // last used first
};

}  // namespace api
}  // namespace kvik
