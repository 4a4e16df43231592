#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/stop.h"
#include "text/stream.h"

namespace kvik::engine {

// The text of one generation as its tokens arrive: whole characters, up to a stop text. Used by one thread at a time.
class TextOutput {
 public:
  TextOutput(std::shared_ptr<const text::Tokenizer> tokenizer, const std::vector<std::string>& stops)
      : stream_(std::move(tokenizer)), stops_(stops) {}

  // The text that can be shown now. Valid until the next call.
  std::string_view push(TokenId token) { return stops_.push(stream_.push(token)); }
  bool stopped() const { return stops_.stopped().has_value(); }
  // The text that was held back, at the end.
  std::string flush() {
    if (stopped()) return {};
    std::string rest(stops_.push(stream_.flush()));
    rest += stops_.flush();
    return rest;
  }

 private:
  text::DetokenizerStream stream_;
  text::StopMatcher stops_;
};

// Creates the TextOutput of each sequence of a stream; empty if the model has no tokenizer.
using NewTextOutput = std::function<std::unique_ptr<TextOutput>()>;

}  // namespace kvik::engine
