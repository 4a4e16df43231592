#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/template/runtime.h"

namespace kvik::text::jinja {

struct Program;

// The system's, in local time.
Moment system_clock();
// "2025-03-04T15:09:26", with a space for the T, a fraction and a zone allowed; nothing otherwise.
std::optional<Moment> parse_moment(std::string_view iso);

// A compiled template. Immutable: any number of threads may render it at once.
class Template {
 public:
  // Throws Error(kBadModel) with the line of the error.
  explicit Template(std::string_view source);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // Throws Error: kBadArgument if the template calls raise_exception (its argument is the whole message) or fails with these variables,
  // kTooLarge for an exceeded limit.
  std::string render(const Dict& variables, const Clock& clock = system_clock, const Limits& limits = {}) const;

 private:
  std::unique_ptr<const Program> program_;
};

}  // namespace kvik::text::jinja
