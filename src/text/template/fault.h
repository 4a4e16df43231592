#pragma once

#include <fmt/format.h>
#include <string>
#include <utility>

#include "kvik/error.h"

namespace kvik::text::jinja {

// An Error on its way out of a template. The interpreter adds the line of the innermost statement, once; a message of the template's own
// (raise_exception) is the template's word to its user and stays as it is.
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
