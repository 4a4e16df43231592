#pragma once

#include <chrono>

#include "base/elapsed.h"
#include "constrain/matcher.h"
#include "kvik/error.h"

namespace kvik::engine {

// The state of a constraint for the text of one sequence, and the time spent on masks. Copied when the sequence is forked.
class ConstrainedText {
 public:
  explicit ConstrainedText(std::shared_ptr<constrain::TokenConstraint> constraint) : matcher_(std::move(constraint)) {}

  // The tokens that may follow; valid until the next call.
  const constrain::Allowed& find_allowed() {
    const auto start = std::chrono::steady_clock::now();
    allowed_ = matcher_.allowed();
    ms_ += ms_since(start);
    return allowed_;
  }

  // `token` must be allowed.
  void append(TokenId token) {
    if (!matcher_.accept(token)) throw Error(Code::kInternal, "a token was chosen that the constraint does not allow");
  }

  bool must_end() const { return matcher_.must_end(); }
  double ms() const { return ms_; }

 private:
  constrain::Matcher matcher_;
  constrain::Allowed allowed_;
  double ms_ = 0;
};

}  // namespace kvik::engine
