#include "text/unicode/unicode.h"

#include <algorithm>
#include <array>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/uscript.h>
#include <utf8proc.h>
#include <vector>

#include "base/utf8.h"
#include "kvik/error.h"

namespace kvik::text::unicode {
namespace {

uint32_t category_bit(char32_t c) { return 1u << utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

constexpr uint32_t kLetter = 1u << UTF8PROC_CATEGORY_LU | 1u << UTF8PROC_CATEGORY_LL | 1u << UTF8PROC_CATEGORY_LT |
                             1u << UTF8PROC_CATEGORY_LM | 1u << UTF8PROC_CATEGORY_LO;
constexpr uint32_t kMark = 1u << UTF8PROC_CATEGORY_MN | 1u << UTF8PROC_CATEGORY_MC | 1u << UTF8PROC_CATEGORY_ME;
constexpr uint32_t kNumber = 1u << UTF8PROC_CATEGORY_ND | 1u << UTF8PROC_CATEGORY_NL | 1u << UTF8PROC_CATEGORY_NO;
constexpr uint32_t kPunctuation = 1u << UTF8PROC_CATEGORY_PC | 1u << UTF8PROC_CATEGORY_PD | 1u << UTF8PROC_CATEGORY_PS |
                                  1u << UTF8PROC_CATEGORY_PE | 1u << UTF8PROC_CATEGORY_PI | 1u << UTF8PROC_CATEGORY_PF |
                                  1u << UTF8PROC_CATEGORY_PO;
constexpr uint32_t kOther =
    1u << UTF8PROC_CATEGORY_CC | 1u << UTF8PROC_CATEGORY_CF | 1u << UTF8PROC_CATEGORY_CO | 1u << UTF8PROC_CATEGORY_CS;

// The reference has Unicode tables of several versions; characters added later are unassigned there, and so here.
constexpr uint8_t kCategoriesVersion = 8;
constexpr uint8_t kFormsVersion = 9;
constexpr uint8_t kScriptsVersion = 9;

bool is_known_since(char32_t c, uint8_t version) {
  if (c < 0x100) return true;
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] != 0 && age[0] <= version;
}

}  // namespace

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return u_isUWhiteSpace(static_cast<UChar32>(c));
}

bool is_number(char32_t c) { return (category_bit(c) & kNumber) != 0; }
bool is_punctuation(char32_t c) { return (category_bit(c) & kPunctuation) != 0 && is_known_since(c, kCategoriesVersion); }
bool is_mark(char32_t c) { return (category_bit(c) & kMark) != 0 && is_known_since(c, kFormsVersion); }
bool is_nonspacing_mark(char32_t c) { return category_bit(c) == 1u << UTF8PROC_CATEGORY_MN && is_known_since(c, kCategoriesVersion); }
bool is_other(char32_t c) { return (category_bit(c) & kOther) != 0 && is_known_since(c, kCategoriesVersion); }

bool is_word(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  constexpr uint32_t kAlways = kMark | 1u << UTF8PROC_CATEGORY_ND | 1u << UTF8PROC_CATEGORY_PC | kLetter;
  if ((category_bit(c) & kAlways) != 0 || c == 0x200C || c == 0x200D) return true;
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC);
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

int script_of(char32_t c) {
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(static_cast<UChar32>(c), &status);
  if (U_FAILURE(status) || script == USCRIPT_UNKNOWN || !is_known_since(c, kScriptsVersion)) return kNoScript;
  return static_cast<int>(script) + 1;
}

int han_script() { return USCRIPT_HAN + 1; }
int hiragana_script() { return USCRIPT_HIRAGANA + 1; }
int katakana_script() { return USCRIPT_KATAKANA + 1; }

void append_lower(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  if (c == 0x130) {  // the only one with two characters
    out += "i\xCC\x87";
    return;
  }
  utf8::append(out, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
}

namespace {

// The canonical and the compatibility tables of ICU.
struct Tables {
  const UNormalizer2* compose;
  bool composes;
  UProperty quick_check;
};

Tables tables_of(Form form) {
  UErrorCode status = U_ZERO_ERROR;
  const bool compatible = form == Form::kNfkc || form == Form::kNfkd;
  const UNormalizer2* table = compatible ? unorm2_getNFKCInstance(&status) : unorm2_getNFCInstance(&status);
  if (U_FAILURE(status)) throw Error(Code::kInternal, "the Unicode normalization tables of ICU are missing; install the ICU data");
  switch (form) {
    case Form::kNfc: return {table, true, UCHAR_NFC_QUICK_CHECK};
    case Form::kNfkc: return {table, true, UCHAR_NFKC_QUICK_CHECK};
    case Form::kNfd: return {table, false, UCHAR_NFD_QUICK_CHECK};
    case Form::kNfkd: return {table, false, UCHAR_NFKD_QUICK_CHECK};
  }
  throw Error(Code::kInternal, "unknown normalization form");
}

struct Mark {
  char32_t c;
  uint8_t order;  // canonical combining class
};

// A prefix that normalization does not change: most text.
size_t unchanged_prefix_bytes(std::string_view text, const Tables& tables) {
  size_t safe = utf8::ascii_prefix_bytes(text);
  if (safe == text.size()) return safe;
  if (safe > 0) --safe;  // a mark may follow the last letter
  const char* const end = text.data() + text.size();
  uint8_t last = 0;
  for (const char* p = text.data() + safe; p < end;) {
    const char* const begin = p;
    const char32_t c = utf8::next(p);
    if (c < 0x80) {
      safe = static_cast<size_t>(begin - text.data());
      last = 0;
      continue;
    }
    const auto order = static_cast<uint8_t>(u_getCombiningClass(static_cast<UChar32>(c)));
    const bool stays = u_getIntPropertyValue(static_cast<UChar32>(c), tables.quick_check) == UNORM_YES;
    if (!stays || (order != 0 && order < last)) return safe;
    if (order == 0) safe = static_cast<size_t>(begin - text.data());
    last = order;
  }
  return text.size();
}

void decompose(std::vector<Mark>& out, std::string_view text, const Tables& tables) {
  std::array<UChar, 64> units;
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const char32_t c = utf8::next(p);
    if (c < 0x80) {
      out.push_back({c, 0});
      continue;
    }
    if (!is_known_since(c, kFormsVersion)) {
      out.push_back({c, 0});
      continue;
    }
    UErrorCode status = U_ZERO_ERROR;
    const int32_t n = unorm2_getDecomposition(tables.compose, static_cast<UChar32>(c), units.data(), units.size(), &status);
    if (n < 0 || U_FAILURE(status)) {
      out.push_back({c, u_getCombiningClass(static_cast<UChar32>(c))});
      continue;
    }
    for (int32_t i = 0; i < n;) {
      UChar32 part;
      U16_NEXT(units.data(), i, n, part);
      out.push_back({static_cast<char32_t>(part), u_getCombiningClass(part)});
    }
  }
  // The libraries use insertion sort, which is quadratic for a long run of marks.
  for (size_t i = 0; i < out.size();) {
    if (out[i].order == 0) {
      ++i;
      continue;
    }
    size_t stop = i;
    while (stop < out.size() && out[stop].order != 0) ++stop;
    std::stable_sort(out.begin() + static_cast<ptrdiff_t>(i), out.begin() + static_cast<ptrdiff_t>(stop),
                     [](const Mark& a, const Mark& b) { return a.order < b.order; });
    i = stop;
  }
}

void compose(std::vector<Mark>& marks, const Tables& tables) {
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t starter = kNone;
  size_t n_out = 0;
  for (const Mark mark : marks) {
    if (starter != kNone) {
      const bool blocked = n_out > starter + 1 && (marks[n_out - 1].order == 0 || marks[n_out - 1].order >= mark.order);
      const UChar32 pair =
          blocked ? U_SENTINEL : unorm2_composePair(tables.compose, static_cast<UChar32>(marks[starter].c), static_cast<UChar32>(mark.c));
      if (pair >= 0 && is_known_since(static_cast<char32_t>(pair), kFormsVersion)) {
        marks[starter].c = static_cast<char32_t>(pair);
        continue;
      }
    }
    if (mark.order == 0) starter = n_out;
    marks[n_out++] = mark;
  }
  marks.resize(n_out);
}

}  // namespace

void append_normalized(std::string& out, std::string_view text, Form form) {
  if (utf8::is_ascii(text)) {
    out.append(text);
    return;
  }
  const Tables tables = tables_of(form);
  const size_t unchanged = unchanged_prefix_bytes(text, tables);
  out.append(text.substr(0, unchanged));
  if (unchanged == text.size()) return;
  std::vector<Mark> marks;
  decompose(marks, text.substr(unchanged), tables);
  if (tables.composes) compose(marks, tables);
  for (const Mark& mark : marks) utf8::append(out, mark.c);
}

size_t grapheme_end(std::string_view text, size_t begin) {
  const char* p = text.data() + begin;
  const char* const end = text.data() + text.size();
  char32_t last = utf8::next(p);
  utf8proc_int32_t state = 0;
  while (p < end) {
    const char* const mark = p;
    const char32_t c = utf8::next(p);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last), static_cast<utf8proc_int32_t>(c), &state)) {
      return static_cast<size_t>(mark - text.data());
    }
    last = c;
  }
  return text.size();
}

}  // namespace kvik::text::unicode
