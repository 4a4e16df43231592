#pragma once

#include <stdexcept>
#include <string>

namespace kvik {

enum class Code {
  kBadArgument,  // the caller asked for something that cannot be
  kBadModel,     // a model, tokenizer or config file contradicts itself or its format
  kUnsupported,  // well formed, but beyond what this build can do
  kIo,           // a file could not be found, read or written
  kTooLarge,     // would not fit in memory or in a stated limit
  kInternal,     // a fault of ours
};

// The one exception of the library: a sentence that says what was found, what was expected and what to do.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

}  // namespace kvik
