#include "text/template/numbers.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>

#include "text/template/fault.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

bool is_word_char(char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); }

// Removes white space and underscores and converts digits to ASCII; nothing if the text is not a number.
std::optional<std::string> plain_number(std::string_view text) {
  text = strip_left(strip_right(text));
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const char32_t point = next_point(text, at);
    if (point == '_') {
      const bool between = !plain.empty() && is_word_char(plain.back()) && at < text.size() && is_word_char(text[at]);
      if (!between) return std::nullopt;
    } else if (point < 0x80) {
      plain += static_cast<char>(point);
    } else if (decimal_value(point) >= 0) {
      plain += static_cast<char>('0' + decimal_value(point));
    } else {
      return std::nullopt;
    }
  }
  return plain.empty() ? std::nullopt : std::optional(plain);
}

int base_of_prefix(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 0;
  const char mark = static_cast<char>(digits[1] | 0x20);
  return mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
}

}  // namespace

std::optional<BigInt> parse_whole(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) fail("int() base must be >= 2 and <= 36, or 0");
  const std::optional<std::string> plain = plain_number(text);
  if (!plain) return std::nullopt;
  const bool has_sign = (*plain)[0] == '-' || (*plain)[0] == '+';
  std::string digits = plain->substr(has_sign ? 1 : 0);
  const int prefix = base_of_prefix(digits);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    digits = digits.substr(2);
    base = prefix;
  } else if (base == 0) {
    if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos) return std::nullopt;
    base = 10;
  }
  if (digits.empty() || !is_word_char(digits[0])) return std::nullopt;
  std::optional<BigInt> value = BigInt::parse(digits, static_cast<int>(base));
  return value && (*plain)[0] == '-' ? -*value : value;
}

std::optional<double> parse_real(std::string_view text) {
  const std::optional<std::string> plain = plain_number(text);
  if (!plain) return std::nullopt;
  const char* begin = plain->data() + ((*plain)[0] == '+' ? 1 : 0);
  const char* end = plain->data() + plain->size();
  if (begin == end || (*begin == '-' && begin != plain->data())) return std::nullopt;
  double value = 0;
  const auto result = std::from_chars(begin, end, value);
  if (result.ptr != end || result.ec == std::errc::invalid_argument) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) value = std::strtod(begin, nullptr);
  if (std::isnan(value) && plain->find('(') != std::string::npos) return std::nullopt;
  return value;
}

double round_real(double value, int64_t digits) {
  if (!std::isfinite(value) || value == 0 || digits > 323) return value;
  if (digits >= 0) {
    const std::string text = fmt::format("{:.{}f}", value, static_cast<int>(digits));
    return std::strtod(text.c_str(), nullptr);
  }
  if (digits < -308) return std::copysign(0.0, value);
  const double magnitude = std::fabs(value);
  const BigInt unit = BigInt(10).power(static_cast<uint64_t>(-digits));
  const BigInt::Division division = BigInt::from_double(magnitude).divide(unit);
  const bool has_fraction = std::trunc(magnitude) != magnitude;
  const BigInt twice = division.remainder * BigInt(2) + BigInt(has_fraction ? 1 : 0);
  const bool quotient_is_odd = !division.quotient.divide(BigInt(2)).remainder.is_zero();
  const bool goes_up = twice > unit || (twice == unit && quotient_is_odd);
  const double rounded = ((division.quotient + BigInt(goes_up ? 1 : 0)) * unit).to_double();
  if (std::isinf(rounded)) fail("rounded value too large to represent");
  return std::copysign(rounded, value);
}

BigInt round_whole(const BigInt& value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -static_cast<int64_t>(BigInt::kMaxBits / 4)) return BigInt(0);
  const BigInt unit = BigInt(10).power(static_cast<uint64_t>(-digits));
  const BigInt::Division division = value.divide(unit);
  const BigInt twice = division.remainder * BigInt(2);
  const bool quotient_is_odd = !division.quotient.divide(BigInt(2)).remainder.is_zero();
  const bool goes_up = twice > unit || (twice == unit && quotient_is_odd);
  return (division.quotient + BigInt(goes_up ? 1 : 0)) * unit;
}

}  // namespace kvik::text::jinja
