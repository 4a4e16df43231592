#include "text/template/unicode.h"

#include <unicode/ucasemap.h>
#include <unicode/uchar.h>

#include "base/utf8.h"
#include "text/template/fault.h"

namespace kvik::text::jinja {
namespace {

struct CaseMap {
  CaseMap() {
    UErrorCode status = U_ZERO_ERROR;
    map = ucasemap_open("", U_FOLD_CASE_DEFAULT, &status);
    if (U_FAILURE(status)) throw Error(Code::kInternal, "the Unicode library could not make a case map");
  }
  CaseMap(const CaseMap&) = delete;
  CaseMap& operator=(const CaseMap&) = delete;
  ~CaseMap() { ucasemap_close(map); }
  UCaseMap* map = nullptr;
};

using Mapping = int32_t (*)(const UCaseMap*, char*, int32_t, const char*, int32_t, UErrorCode*);

std::string map_case(std::string_view text, Mapping mapping) {
  static const CaseMap kRoot;  // immutable, so any thread may use it
  if (text.empty()) return {};
  if (text.size() > (size_t{1} << 29)) throw Fault(Code::kTooLarge, "a text too long to change its case");
  std::string mapped(text.size() + text.size() / 2 + 8, '\0');
  for (;;) {
    UErrorCode status = U_ZERO_ERROR;
    const int32_t n_bytes =
        mapping(kRoot.map, mapped.data(), static_cast<int32_t>(mapped.size()), text.data(), static_cast<int32_t>(text.size()), &status);
    if (status != U_BUFFER_OVERFLOW_ERROR && U_FAILURE(status)) throw Error(Code::kInternal, "the Unicode library could not map case");
    const bool fits = static_cast<size_t>(n_bytes) <= mapped.size();
    mapped.resize(static_cast<size_t>(n_bytes));
    if (fits) return mapped;
  }
}

int32_t upper_mapping(const UCaseMap* map, char* to, int32_t capacity, const char* from, int32_t size, UErrorCode* status) {
  return ucasemap_utf8ToUpper(map, to, capacity, from, size, status);
}
int32_t lower_mapping(const UCaseMap* map, char* to, int32_t capacity, const char* from, int32_t size, UErrorCode* status) {
  return ucasemap_utf8ToLower(map, to, capacity, from, size, status);
}
// One code point in title case, with special casing ("ß" becomes "Ss").
void append_title(std::string& text, std::string_view point) {
  size_t at = 0;
  const char32_t code = next_point(point, at);
  const auto title = static_cast<char32_t>(u_totitle(static_cast<UChar32>(code)));
  const std::string upper = to_upper(point);
  size_t first_bytes = 0;
  if (!upper.empty()) next_point(upper, first_bytes);
  if (first_bytes == upper.size()) return append_point(text, title);
  text += upper.substr(0, first_bytes);
  text += to_lower(std::string_view(upper).substr(first_bytes));
}

uint32_t category(char32_t point) { return U_MASK(u_charType(static_cast<UChar32>(point))); }

bool contains_point(std::string_view chars, char32_t wanted) {
  for (size_t at = 0; at < chars.size();)
    if (next_point(chars, at) == wanted) return true;
  return false;
}

constexpr char32_t kCapitalSigma = 0x3A3;  // has another lower case letter at the end of a word

// Whether the next code point from `at` that is not case-ignorable is cased.
bool cased_follows(std::string_view text, size_t at) {
  while (at < text.size()) {
    const auto point = static_cast<UChar32>(next_point(text, at));
    if (!u_hasBinaryProperty(point, UCHAR_CASE_IGNORABLE)) return u_hasBinaryProperty(point, UCHAR_CASED);
  }
  return false;
}

bool strips(char32_t point, const std::string_view* chars) { return chars == nullptr ? is_space(point) : contains_point(*chars, point); }

}  // namespace

size_t count_points(std::string_view text) {
  size_t n_continuations = 0;
  for (char byte : text) n_continuations += utf8::begins_character(byte) ? 0 : 1;
  return text.size() - n_continuations;
}

char32_t next_point(std::string_view text, size_t& at) {
  const char* begin = text.data() + at;
  const char* end = begin;
  const char32_t point = utf8::next(end);
  at += static_cast<size_t>(end - begin);
  return point;
}

char32_t previous_point(std::string_view text, size_t& at) {
  do --at;
  while (at > 0 && !utf8::begins_character(text[at]));
  size_t end = at;
  return next_point(text, end);
}

void append_point(std::string& text, char32_t point) {
  const bool is_character = point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
  utf8::append(text, is_character ? point : 0xFFFD);
}

size_t byte_of_point(std::string_view text, size_t point) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!utf8::begins_character(text[at])) continue;
    if (point-- == 0) return at;
  }
  return at;
}

bool is_space(char32_t point) {
  switch (point) {
    case 0x20:
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000: return true;
    default: return (point >= 0x09 && point <= 0x0D) || (point >= 0x1C && point <= 0x1F) || (point >= 0x2000 && point <= 0x200A);
  }
}

bool is_alpha(char32_t point) { return (category(point) & U_GC_L_MASK) != 0; }
int decimal_value(char32_t point) { return u_charDigitValue(static_cast<UChar32>(point)); }

bool is_digit(char32_t point) {
  const auto type = u_getIntPropertyValue(static_cast<UChar32>(point), UCHAR_NUMERIC_TYPE);
  return type == U_NT_DIGIT || type == U_NT_DECIMAL;
}

bool is_numeric(char32_t point) { return u_getIntPropertyValue(static_cast<UChar32>(point), UCHAR_NUMERIC_TYPE) != U_NT_NONE; }
bool is_alnum(char32_t point) { return is_alpha(point) || is_numeric(point); }

bool is_printable(char32_t point) {
  if (point == ' ') return true;
  return (category(point) & (U_GC_C_MASK | U_GC_Z_MASK)) == 0;
}

bool is_upper(char32_t point) { return u_hasBinaryProperty(static_cast<UChar32>(point), UCHAR_UPPERCASE); }
bool is_lower(char32_t point) { return u_hasBinaryProperty(static_cast<UChar32>(point), UCHAR_LOWERCASE); }
bool is_title(char32_t point) { return u_charType(static_cast<UChar32>(point)) == U_TITLECASE_LETTER; }
bool is_cased(char32_t point) { return is_upper(point) || is_lower(point) || is_title(point); }
bool is_identifier_start(char32_t point) { return point == '_' || u_hasBinaryProperty(static_cast<UChar32>(point), UCHAR_XID_START); }
bool is_identifier_part(char32_t point) { return u_hasBinaryProperty(static_cast<UChar32>(point), UCHAR_XID_CONTINUE); }

std::string to_upper(std::string_view text) { return map_case(text, upper_mapping); }
std::string to_lower(std::string_view text) { return map_case(text, lower_mapping); }

std::string to_title(std::string_view text) {
  std::string title;
  bool after_cased = false;
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t point = next_point(text, at);
    const std::string_view piece = text.substr(start, at - start);
    if (!after_cased)
      append_title(title, piece);
    else
      title += point == kCapitalSigma && !cased_follows(text, at) ? "\xCF\x82" : to_lower(piece);
    after_cased = is_cased(point);
  }
  return title;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  size_t at = 0;
  next_point(text, at);
  // All in lower case first: the form at the end of a word depends on the letters before it.
  const std::string lower = to_lower(text);
  std::string result;
  append_title(result, text.substr(0, at));
  return result.append(lower, to_lower(text.substr(0, at)).size());
}

char32_t point_by_name(std::string_view name) {
  UErrorCode status = U_ZERO_ERROR;
  const UChar32 point = u_charFromName(U_UNICODE_CHAR_NAME, std::string(name).c_str(), &status);
  return U_FAILURE(status) ? 0 : static_cast<char32_t>(point);
}

std::string_view strip_left(std::string_view text, const std::string_view* chars) {
  size_t start = 0;
  for (size_t at = 0; at < text.size(); start = at)
    if (!strips(next_point(text, at), chars)) break;
  return text.substr(start);
}

std::string_view strip_right(std::string_view text, const std::string_view* chars) {
  size_t end = text.size();
  for (size_t at = end; at > 0; end = at)
    if (!strips(previous_point(text, at), chars)) break;
  return text.substr(0, end);
}

}  // namespace kvik::text::jinja
