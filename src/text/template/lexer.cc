#include "text/template/lexer.h"

#include <algorithm>
#include <charconv>

#include "base/utf8.h"
#include "text/template/fault.h"
#include "text/template/unicode.h"

namespace kvik::text::jinja {
namespace {

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

// Normalizes line breaks and drops the last one.
std::string with_plain_line_breaks(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
      continue;
    }
    text += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_line_breaks(utf8::replaced(source))) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) root();
    add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  enum class Tag { kComment, kRaw, kBlock, kVariable };

  [[noreturn]] void fail_here(const std::string& what) const {
    throw Fault(Code::kBadModel, fmt::format("template line {}: {}", line_, what), true);
  }
  bool starts(std::string_view prefix, size_t at) const {
    return at <= source_.size() && std::string_view(source_).substr(at, prefix.size()) == prefix;
  }
  bool starts(std::string_view prefix) const { return starts(prefix, at_); }

  size_t after_space(size_t at) const {
    while (at < source_.size()) {
      size_t next = at;
      if (!is_space(next_point(source_, next))) break;
      at = next;
    }
    return at;
  }

  void move_to(size_t at) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_), source_.begin() + static_cast<ptrdiff_t>(at), '\n'));
    at_ = at;
  }

  void add(TokenType type, std::string text, Value number = {}) { tokens_.push_back({type, std::move(text), std::move(number), line_}); }

  // Past "%}" and the white space removed by signs and trim_blocks; npos if the tag does not end at `at`.
  size_t end_of_block(size_t at) const {
    if (starts("+%}", at)) return at + 3;
    if (starts("-%}", at)) return after_space(at + 3);
    if (!starts("%}", at)) return std::string::npos;
    return at + (starts("%}\n", at) ? 3 : 2);
  }

  // "{% raw %}" at `at`: past it, or npos.
  size_t end_of_raw_begin(size_t at) const {
    at += 2;
    if (starts("-", at) || starts("+", at)) ++at;
    at = after_space(at);
    if (!starts("raw", at)) return std::string::npos;
    at = after_space(at + 3);
    if (starts("-%}", at)) return after_space(at + 3);
    return starts("%}", at) ? at + 2 : std::string::npos;
  }

  // Text before a tag, after the tag's sign and lstrip_blocks.
  void add_data(size_t end, char sign, bool strips_line) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    if (sign == '-') {
      text = strip_right(text);
    } else if (sign != '+' && strips_line) {
      const size_t line_start = text.rfind('\n') + 1;  // 0 if there is none
      if ((line_start > 0 || at_line_start_) && strip_left(text.substr(line_start)).empty()) text = text.substr(0, line_start);
    }
    if (!text.empty()) add(TokenType::kData, std::string(text));
    move_to(end);
  }

  void root() {
    size_t begin = at_;
    for (;; ++begin) {
      begin = source_.find('{', begin);
      if (begin == std::string::npos || begin + 1 >= source_.size()) return add_data(source_.size(), '+', false);
      if (source_[begin + 1] == '#' || source_[begin + 1] == '%' || source_[begin + 1] == '{') break;
    }
    const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
    const size_t raw_end = source_[begin + 1] == '%' ? end_of_raw_begin(begin) : std::string::npos;
    const Tag tag = source_[begin + 1] == '#'      ? Tag::kComment
                    : source_[begin + 1] == '{'    ? Tag::kVariable
                    : raw_end != std::string::npos ? Tag::kRaw
                                                   : Tag::kBlock;
    add_data(begin, sign, tag != Tag::kVariable);
    if (tag == Tag::kRaw) return raw(raw_end);
    move_to(begin + (sign == '-' || sign == '+' ? 3 : 2));
    if (tag == Tag::kComment) return comment();
    tag == Tag::kBlock ? block() : variable();
  }

  void comment() {
    size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail_here("a comment has no end; expected \"#}\"");
    const char before = end > at_ ? source_[end - 1] : '\0';
    end += 2;
    if (before == '-') end = after_space(end);
    if (before != '-' && before != '+' && starts("\n", end)) ++end;
    leave_tag(end);
  }

  void raw(size_t body) {
    at_line_start_ = source_[body - 1] == '\n';
    move_to(body);
    for (size_t begin = source_.find("{%", at_); begin != std::string::npos; begin = source_.find("{%", begin + 1)) {
      size_t at = begin + 2;
      const char sign = at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
      at = after_space(sign == '\0' ? at : at + 1);
      if (!starts("endraw", at)) continue;
      const size_t end = end_of_block(after_space(at + 6));
      if (end == std::string::npos) continue;
      add_data(begin, sign, true);
      return leave_tag(end);
    }
    fail_here("a raw block has no end; expected \"{% endraw %}\"");
  }

  void leave_tag(size_t end) {
    at_line_start_ = source_[end - 1] == '\n';
    move_to(end);
  }

  void block() {
    add(TokenType::kBlockBegin, "{%");
    while (at_ < source_.size()) {
      if (open_.empty()) {
        const size_t end = end_of_block(at_);
        if (end != std::string::npos) {
          add(TokenType::kBlockEnd, "%}");
          return leave_tag(end);
        }
      }
      inside_tag();
    }
  }

  void variable() {
    add(TokenType::kVariableBegin, "{{");
    while (at_ < source_.size()) {
      if (open_.empty() && (starts("}}") || starts("-}}"))) {
        add(TokenType::kVariableEnd, "}}");
        return leave_tag(starts("-") ? after_space(at_ + 3) : at_ + 2);
      }
      inside_tag();
    }
  }

  void inside_tag() {
    if (const size_t end = after_space(at_); end != at_) return move_to(end);
    const char c = source_[at_];
    if (is_digit_char(c)) return number();
    if (c == '\'' || c == '"') return text();
    size_t end = at_;
    while (end < source_.size()) {
      size_t next = end;
      if (!is_identifier_part(next_point(source_, next))) break;
      end = next;
    }
    if (end != at_) return name(end);
    symbol();
  }

  void name(size_t end) {
    size_t first = at_;
    if (!is_identifier_start(next_point(source_, first))) fail_here("a name starts with a character that names cannot start with");
    add(TokenType::kName, source_.substr(at_, end - at_));
    move_to(end);
  }

  // Digits with single underscores between them; the end of it, or `at` itself.
  size_t after_digits(size_t at, bool (*is_digit)(char)) const {
    if (at >= source_.size() || !is_digit(source_[at])) return at;
    while (at < source_.size()) {
      if (is_digit(source_[at]))
        ++at;
      else if (source_[at] == '_' && at + 1 < source_.size() && is_digit(source_[at + 1]))
        at += 2;
      else
        break;
    }
    return at;
  }

  // The end of a float that starts here, or `at_`.
  size_t after_float() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return at_;
    const size_t whole = after_digits(at_, is_digit_char);
    size_t fraction = whole;
    if (starts(".", whole)) {
      fraction = after_digits(whole + 1, is_digit_char);
      if (fraction == whole + 1) fraction = whole;
    }
    if (starts("e", fraction) || starts("E", fraction)) {
      size_t exponent = fraction + 1;
      if (starts("+", exponent) || starts("-", exponent)) ++exponent;
      const size_t end = after_digits(exponent, is_digit_char);
      if (end != exponent) return end;
    }
    return fraction == whole ? at_ : fraction;
  }

  size_t after_integer(int& base) const {
    const char mark = at_ + 1 < source_.size() && source_[at_] == '0' ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
    const size_t digits = at_ + 2 + (starts("_", at_ + 2) ? 1 : 0);
    size_t end = at_;
    if (mark == 'b') end = after_digits(digits, [](char c) { return c == '0' || c == '1'; });
    if (mark == 'o') end = after_digits(digits, [](char c) { return c >= '0' && c <= '7'; });
    if (mark == 'x') end = after_digits(digits, [](char c) { return is_digit_char(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); });
    if (end > digits) {
      base = mark == 'b' ? 2 : mark == 'o' ? 8 : 16;
      return end;
    }
    return source_[at_] == '0' ? after_digits(at_, [](char c) { return c == '0'; }) : after_digits(at_, is_digit_char);
  }

  void number() {
    int base = 10;
    const size_t float_end = after_float();
    const size_t end = float_end != at_ ? float_end : after_integer(base);
    std::string digits = source_.substr(at_, end - at_);
    std::erase(digits, '_');
    if (float_end != at_) {
      double value = 0;
      const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (result.ec == std::errc::result_out_of_range) value = digits.find("e-") != std::string::npos ? 0.0 : HUGE_VAL;
      add(TokenType::kFloat, digits, Value::real(value));
    } else {
      const std::optional<BigInt> value = BigInt::parse(base == 10 ? digits : digits.substr(2), base);
      add(TokenType::kInteger, digits, Value::big(*value));
    }
    move_to(end);
  }

  void text() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_here("a string has no end");
    try {
      add(TokenType::kText, unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    } catch (const Fault& e) { fail_here(e.what()); }
    move_to(end + 1);
  }

  void symbol() {
    constexpr std::string_view kSymbols[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                             "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* found = std::find_if(std::begin(kSymbols), std::end(kSymbols), [&](std::string_view s) { return starts(s); });
    if (found == std::end(kSymbols)) fail_here(fmt::format("unexpected character at byte {}", at_));
    balance(found->front());
    add(TokenType::kOperator, std::string(*found));
    move_to(at_ + found->size());
  }

  // A tag can only end if every bracket is closed.
  void balance(char symbol) {
    if (symbol == '(') open_ += ')';
    if (symbol == '[') open_ += ']';
    if (symbol == '{') open_ += '}';
    if (symbol != ')' && symbol != ']' && symbol != '}') return;
    if (open_.empty()) fail_here(fmt::format("unexpected '{}'", symbol));
    if (open_.back() != symbol) fail_here(fmt::format("unexpected '{}', expected '{}'", symbol, open_.back()));
    open_.pop_back();
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
  std::string open_;  // the expected closing brackets, innermost last
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace kvik::text::jinja
