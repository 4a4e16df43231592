#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/steps/decoder.h"

namespace kvik::text {

struct Replacement {
  std::string_view what, with;
};

// Appends `text` with all matches replaced, as Rust's str::replace does: an empty `what` matches between all characters. Throws
// Error(kBadModel) if `out` would get longer than `max_bytes`.
void append_replacing(std::string& out, std::string_view text, const Replacement& replacement, size_t max_bytes);

// Steps that map each token to one, independent of the next.
class TokenwiseStep : public DecodeStep {
 public:
  explicit TokenwiseStep(DecodeStep& next) : next_(next) {}
  void push(std::string_view token) final {
    buffer_.clear();
    if (rewrite(token, buffer_)) next_.push(buffer_);
  }
  void finish() override { next_.finish(); }

 protected:
  // False if nothing is passed on.
  virtual bool rewrite(std::string_view token, std::string& out) = 0;
  DecodeStep& next_;

 private:
  std::string buffer_;
};

// A decoder whose step S is constructed from the rule.
template <class Rule, class S>
class SimpleDecoder : public Decoder {
 public:
  explicit SimpleDecoder(Rule rule) : rule_(std::move(rule)) {}
  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override { return std::make_unique<S>(rule_, next); }

 protected:
  Rule rule_;
};

}  // namespace kvik::text
