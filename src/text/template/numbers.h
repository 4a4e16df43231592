#pragma once

#include <optional>
#include <string_view>

#include "text/template/big_int.h"

namespace kvik::text::jinja {

// Parse like Python's int() and float(): surrounding white space, a sign, single underscores between digits, digits of any script.
std::optional<BigInt> parse_whole(std::string_view text, int64_t base);
std::optional<double> parse_real(std::string_view text);

// round(value, digits): halves round to even; floats are rounded by their exact decimal value.
double round_real(double value, int64_t digits);
BigInt round_whole(const BigInt& value, int64_t digits);

}  // namespace kvik::text::jinja
