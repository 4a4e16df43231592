#pragma once

#include <string>

#include "text/template/runtime.h"

namespace kvik::text::jinja {

// form % values
std::string format_percent(Runtime& runtime, const Value& form, const Value& values);
// form.format(*args, **kwargs)
std::string format_braces(Runtime& runtime, const Value& form, const Args& args);

// The specification between % and its letter, or after the colon of a brace field.
struct FormatSpec {
  char32_t fill = ' ';
  char align = '\0';      // '<', '>', '^', '='; none: the default of the type
  char sign = '-';        // '-', '+', ' '
  bool has_sign = false;  // whether it is given
  bool is_empty = true;   // nothing is given
  bool alternate = false;
  bool groups_commas = false, groups_underscores = false;
  int64_t width = 0;
  int64_t precision = -1;  // -1: none
  char type = '\0';
};
FormatSpec parse_format_spec(std::string_view spec);
// format(value, spec)
std::string format_value(Runtime& runtime, const Value& value, const FormatSpec& spec);
std::string format_whole(Runtime& runtime, const BigInt& value, const FormatSpec& spec);
std::string format_real(Runtime& runtime, double value, const FormatSpec& spec);
// Padded to the width, by code points.
std::string aligned(Runtime& runtime, std::string text, const FormatSpec& spec, char natural_align);

}  // namespace kvik::text::jinja
