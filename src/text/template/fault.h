#pragma once

#include <fmt/format.h>
#include <string>
#include <utility>

#include "kvik/error.h"

namespace kvik::text::jinja {

// An Error inside a template. The interpreter adds the line of the innermost statement, once; the message of raise_exception() is not
// changed.
class Fault : public Error {
 public:
  Fault(Code code, const std::string& sentence, bool is_final = false) : Error(code, sentence), is_final_(is_final) {}
  bool is_final() const { return is_final_; }

 private:
  bool is_final_;
};

template <typename... Parts>
[[noreturn]] void fail(fmt::format_string<Parts...> form, Parts&&... parts) {
  throw Fault(Code::kBadArgument, fmt::format(form, std::forward<Parts>(parts)...));
}

}  // namespace kvik::text::jinja
