#include "text/template/fault.h"
#include "text/template/lexer.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

// The reference first escapes non-ASCII characters, so that a backslash before one escapes the backslash of that escape.
std::string with_ascii_escapes(std::string_view literal) {
  std::string ascii;
  for (size_t at = 0; at < literal.size();) {
    const char32_t point = next_point(literal, at);
    if (point < 0x80)
      ascii += static_cast<char>(point);
    else if (point < 0x100)
      ascii += fmt::format("\\x{:02x}", static_cast<uint32_t>(point));
    else if (point < 0x10000)
      ascii += fmt::format("\\u{:04x}", static_cast<uint32_t>(point));
    else
      ascii += fmt::format("\\U{:08x}", static_cast<uint32_t>(point));
  }
  return ascii;
}

class Unescaper {
 public:
  explicit Unescaper(std::string_view ascii) : ascii_(ascii) {}

  std::string run() {
    while (at_ < ascii_.size()) {
      const char c = ascii_[at_++];
      if (c != '\\') {
        put(static_cast<unsigned char>(c));
        continue;
      }
      if (at_ == ascii_.size()) fail("a string ends with a single backslash");
      escape(ascii_[at_++]);
    }
    flush();
    return std::move(text_);
  }

 private:
  void escape(char c) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
    if (c == '\n') return;  // a line continuation
    if (const size_t i = kLetters.find(c); i != std::string_view::npos) return put(static_cast<unsigned char>(kMeanings[i]));
    if (c == 'x') return hex(2);
    if (c == 'u') return hex(4);
    if (c == 'U') return hex(8);
    if (c == 'N') return named();
    if (c >= '0' && c <= '7') return octal(c);
    put('\\');
    put(static_cast<unsigned char>(c));
  }

  void hex(size_t n_digits) {
    char32_t point = 0;
    for (size_t i = 0; i < n_digits; ++i, ++at_) {
      const char c = at_ < ascii_.size() ? ascii_[at_] : '\0';
      const int lower = c | 0x20;
      if (c >= '0' && c <= '9')
        point = point * 16 + static_cast<char32_t>(c - '0');
      else if (lower >= 'a' && lower <= 'f')
        point = point * 16 + static_cast<char32_t>(lower - 'a' + 10);
      else
        fail("a string has a truncated escape; expected {} hexadecimal digits", n_digits);
    }
    if (point > 0x10FFFF) fail("a string has an escape beyond Unicode");
    put(point);
  }

  void octal(char first) {
    auto point = static_cast<char32_t>(first - '0');
    for (int i = 0; i < 2 && at_ < ascii_.size() && ascii_[at_] >= '0' && ascii_[at_] <= '7'; ++i)
      point = point * 8 + static_cast<char32_t>(ascii_[at_++] - '0');
    put(point);
  }

  void named() {
    const size_t end = ascii_.find('}', at_);
    if (at_ >= ascii_.size() || ascii_[at_] != '{' || end == std::string_view::npos) fail("a string has a malformed \\N escape");
    const char32_t point = point_by_name(ascii_.substr(at_ + 1, end - at_ - 1));
    if (point == 0) fail("a string names an unknown Unicode character");
    put(point);
    at_ = end + 1;
  }

  // Two escaped surrogates are one character; a single one is invalid.
  void put(char32_t point) {
    const bool is_low = point >= 0xDC00 && point <= 0xDFFF;
    if (is_low && high_ != 0) {
      append_point(text_, 0x10000 + ((high_ - 0xD800) << 10) + (point - 0xDC00));
      high_ = 0;
      return;
    }
    flush();
    if (point >= 0xD800 && point <= 0xDBFF)
      high_ = point;
    else
      append_point(text_, is_low ? 0xFFFD : point);
  }

  void flush() {
    if (high_ != 0) append_point(text_, 0xFFFD);
    high_ = 0;
  }

  std::string_view ascii_;
  size_t at_ = 0;
  std::string text_;
  char32_t high_ = 0;
};

}  // namespace

std::string unescape(std::string_view literal) { return Unescaper(with_ascii_escapes(literal)).run(); }

}  // namespace kvik::text::jinja
