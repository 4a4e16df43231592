#include "constrain/notation/cursor.h"

#include <algorithm>

#include "base/utf8.h"
#include "constrain/grammar.h"

namespace kvik::constrain {

Cursor::Cursor(std::string_view text, std::string_view what) : text_(text), what_(what) {
  if (text.size() > kMostTextBytes)
    throw Error(Code::kBadArgument, fmt::format("the {} has {} bytes; at most {} are accepted", what, text.size(), kMostTextBytes));
  if (!utf8::is_valid(text))
    throw Error(Code::kBadArgument, fmt::format("the {} is not valid UTF-8 at byte {}", what, utf8::valid_prefix_bytes(text)));
}

bool Cursor::skip(char c) {
  if (at_end() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool Cursor::skip(std::string_view what) {
  if (!looking_at(what)) return false;
  at_ += what.size();
  return true;
}

char32_t Cursor::next_character() {
  const char* p = text_.data() + at_;
  const char32_t c = utf8::next(p);
  at_ = static_cast<size_t>(p - text_.data());
  return c;
}

char32_t Cursor::hex(size_t n_digits) {
  char32_t value = 0;
  for (size_t i = 0; i < n_digits; ++i) {
    const char c = peek();
    const char lower = static_cast<char>(c | 32);
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<char32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<char32_t>(lower - 'a' + 10);
    } else {
      fail(fmt::format("an escape with {} hexadecimal digits was expected", n_digits));
    }
    advance();
  }
  return value;
}

std::optional<int> Cursor::number(const char* what) {
  if (!(peek() >= '0' && peek() <= '9')) return std::nullopt;
  int value = 0;
  while (peek() >= '0' && peek() <= '9') {
    value = value * 10 + (peek() - '0');
    if (value > kMostRepetitions) fail(fmt::format("{} above {} is not supported", what, kMostRepetitions));
    advance();
  }
  return value;
}

std::optional<Cursor::Times> Cursor::repetition(bool spaced, const char* no_number) {
  if (skip('*')) return Times{0, kNoLimit};
  if (skip('+')) return Times{1, kNoLimit};
  if (skip('?')) return Times{0, 1};
  if (!skip('{')) return std::nullopt;
  const auto skip_space = [&] {
    while (spaced && (skip(' ') || skip('\t'))) {}
  };
  skip_space();
  const std::optional<int> first = number("a repetition");
  if (!first) fail(no_number);
  Times times{*first, *first};
  skip_space();
  if (skip(',')) {
    skip_space();
    times.most = number("a repetition").value_or(kNoLimit);
    skip_space();
  }
  if (!skip('}')) fail("'}' was expected");
  if (times.most != kNoLimit && times.most < times.least) fail(fmt::format("a repetition from {} to {} is empty", times.least, times.most));
  return times;
}

void Cursor::fail(const std::string& why) const { fail_at(at_, why); }

void Cursor::fail_at(size_t place, const std::string& why) const {
  const std::string_view before = text_.substr(0, std::min(place, text_.size()));
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  const std::string position = line > 1 ? fmt::format("line {}, column {}", line, before.size() - line_start + 1)
                                        : fmt::format("character {}", before.size() - line_start + 1);
  throw Error(Code::kBadArgument, fmt::format("the {}, {}: {}", what_, position, why));
}

}  // namespace kvik::constrain
