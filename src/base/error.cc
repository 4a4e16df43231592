#include "kvik/error.h"

#include "base/escape.h"

namespace kvik {

Error::Error(Code code, const std::string& sentence) : std::runtime_error(escape_controls(sentence)), code_(code) {}

}  // namespace kvik
