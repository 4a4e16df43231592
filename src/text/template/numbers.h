#pragma once

#include <optional>
#include <string_view>

#include "text/template/big_int.h"

namespace kvik::text::jinja {

// Text as Python's int() and float() read it: white space around, a sign, single underscores between digits, digits of any script.
std::optional<BigInt> parse_whole(std::string_view text, int64_t base);
std::optional<double> parse_real(std::string_view text);

// round(value, digits): halves go to the even neighbour; a float is rounded as its exact decimal value is.
double round_real(double value, int64_t digits);
BigInt round_whole(const BigInt& value, int64_t digits);

}  // namespace kvik::text::jinja
