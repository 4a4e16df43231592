#pragma once

#include <string>

#include "text/template/runtime.h"

namespace kvik::text::jinja {

// Python's str() and repr(), appended to `out`. Throw if `out` exceeds the memory limit.
void print_to(Runtime& runtime, const Value& value, std::string& out);
void repr_to(Runtime& runtime, const Value& value, std::string& out);
std::string printed(Runtime& runtime, const Value& value);
std::string represented(Runtime& runtime, const Value& value);

// Python's shortest representation: 1.0, 1e+16, 1e-07, inf, nan.
std::string print_real(double value);

// Escapes & < > ' " for HTML.
std::string escape_html(std::string_view text);

}  // namespace kvik::text::jinja
