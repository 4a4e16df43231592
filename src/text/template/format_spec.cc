#include <cmath>

#include "text/template/format.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

constexpr int64_t kMaxPrecision = 1000;

int64_t parse_number(std::string_view spec, size_t& at) {
  int64_t number = 0;
  for (; at < spec.size() && spec[at] >= '0' && spec[at] <= '9'; ++at) {
    number = number * 10 + (spec[at] - '0');
    if (number > INT32_MAX) fail("Too many decimal digits in format string");
  }
  return number;
}

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

std::string with_groups(const std::string& digits, char separator, size_t size) {
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) grouped += separator;
    grouped += digits[i];
  }
  return grouped;
}

// Sign, prefix and digits, padded; zeros and '=' go between sign and digits.
std::string assemble(Runtime& runtime, bool is_negative, const std::string& prefix, const std::string& digits, const FormatSpec& spec) {
  std::string head;
  if (is_negative || spec.sign != '-') head.push_back(is_negative ? '-' : spec.sign);
  head.append(prefix);
  if (spec.align != '=') return aligned(runtime, head + digits, spec, '>');
  const auto used = static_cast<int64_t>(head.size() + count_points(digits));
  for (int64_t i = used; i < spec.width; ++i) append_point(head, spec.fill);
  return head.append(digits);
}

std::string upper_ascii(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return text;
}

// printf writes the digits; Python differs in what follows.
std::string real_digits(double magnitude, const FormatSpec& spec, char type) {
  if (std::isnan(magnitude)) return "nan";
  if (std::isinf(magnitude)) return "inf";
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(std::min(spec.precision, kMaxPrecision));
  switch (type) {
    case 'e': return spec.alternate ? fmt::format("{:#.{}e}", magnitude, precision) : fmt::format("{:.{}e}", magnitude, precision);
    case 'f': return spec.alternate ? fmt::format("{:#.{}f}", magnitude, precision) : fmt::format("{:.{}f}", magnitude, precision);
    case '%': return fmt::format("{:.{}f}", magnitude * 100, precision) + "%";
    default: {
      const int significant = std::max(precision, 1);
      return spec.alternate ? fmt::format("{:#.{}g}", magnitude, significant) : fmt::format("{:.{}g}", magnitude, significant);
    }
  }
}

// A precision without a type: like 'g', but always with a digit after the point.
std::string untyped_digits(double magnitude, int64_t precision) {
  if (!std::isfinite(magnitude)) return print_real(magnitude);
  const int significant = static_cast<int>(std::max<int64_t>(precision, 1));
  std::string scientific = fmt::format("{:.{}e}", magnitude, significant - 1);
  const size_t mark = scientific.find('e');
  const int n_before = std::stoi(scientific.substr(mark + 1)) + 1;
  if (n_before > -4 && n_before <= significant - 1) {
    const std::string digits = fmt::format("{:.{}g}", magnitude, significant);
    return digits.find('.') == std::string::npos ? digits + ".0" : digits;
  }
  std::string mantissa = scientific.substr(0, mark);
  if (mantissa.find('.') != std::string::npos) mantissa.resize(mantissa.find_last_not_of(".0") + 1);
  return mantissa.append(scientific, mark);
}

}  // namespace

FormatSpec parse_format_spec(std::string_view spec) {
  FormatSpec result;
  result.is_empty = spec.empty();
  size_t at = 0;
  size_t after_fill = 0;
  if (!spec.empty()) next_point(spec, after_fill);
  if (after_fill < spec.size() && is_align(spec[after_fill])) {
    size_t start = 0;
    result.fill = next_point(spec, start);
    result.align = spec[after_fill];
    at = after_fill + 1;
  } else if (!spec.empty() && is_align(spec[0])) {
    result.align = spec[0];
    at = 1;
  }
  if (at < spec.size() && (spec[at] == '+' || spec[at] == '-' || spec[at] == ' ')) {
    result.sign = spec[at++];
    result.has_sign = true;
  }
  if (at < spec.size() && spec[at] == '#') {
    result.alternate = true;
    ++at;
  }
  if (at < spec.size() && spec[at] == '0') {
    if (after_fill >= spec.size() || result.align == '\0' || spec[after_fill] != result.align) result.fill = '0';
    if (result.align == '\0') result.align = '=';
    ++at;
  }
  result.width = parse_number(spec, at);
  if (at < spec.size() && spec[at] == ',') result.groups_commas = ++at > 0;
  if (at < spec.size() && spec[at] == '_') result.groups_underscores = ++at > 0;
  if (at < spec.size() && spec[at] == '.') {
    const size_t digits = ++at;
    result.precision = parse_number(spec, at);
    if (at == digits) fail("Format specifier missing precision");
  }
  if (at < spec.size()) result.type = spec[at++];
  if (at != spec.size()) fail("Invalid format specifier '{}'", spec);
  return result;
}

std::string aligned(Runtime& runtime, std::string text, const FormatSpec& spec, char natural_align) {
  const auto n_points = static_cast<int64_t>(count_points(text));
  if (n_points >= spec.width) return text;
  const int64_t missing = spec.width - n_points;
  runtime.check_room(text.size() + static_cast<size_t>(missing) * 4);
  const char align = spec.align == '\0' || spec.align == '=' ? natural_align : spec.align;
  const int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  std::string result;
  for (int64_t i = 0; i < left; ++i) append_point(result, spec.fill);
  result += text;
  for (int64_t i = left; i < missing; ++i) append_point(result, spec.fill);
  return result;
}

std::string format_whole(Runtime& runtime, const BigInt& value, const FormatSpec& spec) {
  if (spec.precision >= 0) fail("Precision not allowed in integer format specifier");
  runtime.check_room(static_cast<size_t>(spec.width));
  runtime.work(value.bits() * 8);
  if (spec.type == 'c') {
    const std::optional<int64_t> point = value.to_int64();
    if (!point || *point < 0 || *point > 0x10FFFF) fail("%c arg not in range(0x110000)");
    if (spec.has_sign || spec.alternate) fail("neither a sign nor # is allowed with the integer format specifier 'c'");
    std::string text;
    append_point(text, static_cast<char32_t>(*point));
    return assemble(runtime, false, "", text, spec);
  }
  const char lower = static_cast<char>(spec.type | 0x20);
  const int base = lower == 'x' ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
  std::string digits = (value.is_negative() ? -value : value).to_string(base);
  if (spec.groups_commas) digits = with_groups(digits, ',', 3);
  if (spec.groups_underscores) digits = with_groups(digits, '_', base == 10 ? 3 : 4);
  if (spec.type == 'X') digits = upper_ascii(digits);
  const std::string prefix = spec.alternate && base != 10 ? fmt::format("0{}", spec.type) : std::string();
  return assemble(runtime, value.is_negative(), prefix, digits, spec);
}

std::string format_real(Runtime& runtime, double value, const FormatSpec& spec) {
  runtime.check_room(static_cast<size_t>(spec.width) + static_cast<size_t>(std::max<int64_t>(spec.precision, 0)));
  if (spec.precision > kMaxPrecision) fail("a precision of {} digits is too large; the limit is {}", spec.precision, kMaxPrecision);
  const double magnitude = std::fabs(value);
  const bool is_upper = spec.type >= 'A' && spec.type <= 'Z';
  const char type = is_upper ? static_cast<char>(spec.type | 0x20) : spec.type;
  std::string digits = type != '\0'         ? real_digits(magnitude, spec, type)
                       : spec.precision < 0 ? print_real(magnitude)
                                            : untyped_digits(magnitude, spec.precision);
  if (spec.groups_commas || spec.groups_underscores) {
    const size_t whole_end = std::min(digits.find_first_not_of("0123456789"), digits.size());
    digits = with_groups(digits.substr(0, whole_end), spec.groups_commas ? ',' : '_', 3) + digits.substr(whole_end);
  }
  if (is_upper) digits = upper_ascii(digits);
  return assemble(runtime, std::signbit(value) && !std::isnan(value), "", digits, spec);
}

std::string format_value(Runtime& runtime, const Value& value, const FormatSpec& spec) {
  constexpr std::string_view kRealTypes = "eEfFgG%", kWholeTypes = "bcdoxXn";
  const bool wants_real = spec.type != '\0' && kRealTypes.find(spec.type) != std::string_view::npos;
  if (value.is_number() && !(value.is(Kind::kBool) && spec.type == '\0')) {
    if (value.is(Kind::kFloat) || wants_real) {
      if (!wants_real && spec.type != '\0' && spec.type != 'n') fail("Unknown format code '{}' for object of type 'float'", spec.type);
      return format_real(runtime, value.to_double(), spec);
    }
    if (spec.type != '\0' && kWholeTypes.find(spec.type) == std::string_view::npos)
      fail("Unknown format code '{}' for object of type 'int'", spec.type);
    return format_whole(runtime, value.as_big(), spec);
  }
  if (!value.is_text() && !value.is(Kind::kBool) && !spec.is_empty)
    fail("unsupported format string passed to {}.__format__", type_name(value));
  if (spec.type != '\0' && spec.type != 's') fail("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
  if (spec.has_sign || spec.alternate || spec.groups_commas || spec.groups_underscores)
    fail("signs, # and separators are not allowed in a string format specifier");
  if (spec.align == '=') fail("'=' alignment not allowed in string format specifier");
  std::string text = printed(runtime, value);
  if (spec.precision >= 0) text.resize(byte_of_point(text, static_cast<size_t>(spec.precision)));
  return aligned(runtime, std::move(text), spec, '<');
}

}  // namespace kvik::text::jinja
