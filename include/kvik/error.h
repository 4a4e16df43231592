#pragma once

#include <stdexcept>
#include <string>

namespace kvik {

enum class Code {
  kBadArgument,  // an argument or option is invalid
  kBadModel,     // a model, tokenizer or config file is malformed
  kUnsupported,  // well formed, but not supported by this build
  kIo,           // a file could not be found, read or written
  kTooLarge,     // does not fit in memory or exceeds a limit
  kInternal,     // a bug in Kvik
};

// The only exception that the library throws. Its message is one sentence: what was found, what was expected and what to do. It may quote
// names from files; control characters are escaped, so that the message is safe to log or print.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& sentence);
  Code code() const { return code_; }

 private:
  Code code_;
};

}  // namespace kvik
