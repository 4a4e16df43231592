#include "text/regex/regex_class.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/utf8.h"
#include "kvik/error.h"

namespace kvik::text {
namespace {

constexpr int kMaxNesting = 32;

constexpr const char* kWhiteSpaceSet = R"(\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr const char* kNotSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
// Oniguruma includes the superscripts and fractions of Latin-1 in \w, and only in \w.
constexpr const char* kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr const char* kPosixWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

struct Name {
  std::string_view name;
  const char* items;
};

constexpr std::array<Name, 14> kPosix = {{{"alnum", R"(\p{Alphabetic}\p{Nd})"},
                                          {"alpha", R"(\p{Alphabetic})"},
                                          {"ascii", R"(\x{0}-\x{7f})"},
                                          {"blank", R"(\p{Zs}\t)"},
                                          {"cntrl", R"(\p{Cc})"},
                                          {"digit", R"(\p{Nd})"},
                                          {"graph", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co})"},
                                          {"lower", R"(\p{Lowercase})"},
                                          {"print", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}\p{Zs})"},
                                          {"punct", R"(\p{P}\p{S})"},
                                          {"space", kWhiteSpaceSet},
                                          {"upper", R"(\p{Uppercase})"},
                                          {"word", kPosixWord},
                                          {"xdigit", "0-9A-Fa-f"}}};

constexpr std::array<Name, 38> kCategories = {{{"letter", "L"},
                                               {"casedletter", "L&"},
                                               {"uppercaseletter", "Lu"},
                                               {"lowercaseletter", "Ll"},
                                               {"titlecaseletter", "Lt"},
                                               {"modifierletter", "Lm"},
                                               {"otherletter", "Lo"},
                                               {"mark", "M"},
                                               {"combiningmark", "M"},
                                               {"nonspacingmark", "Mn"},
                                               {"spacingmark", "Mc"},
                                               {"enclosingmark", "Me"},
                                               {"number", "N"},
                                               {"decimalnumber", "Nd"},
                                               {"letternumber", "Nl"},
                                               {"othernumber", "No"},
                                               {"punctuation", "P"},
                                               {"connectorpunctuation", "Pc"},
                                               {"dashpunctuation", "Pd"},
                                               {"openpunctuation", "Ps"},
                                               {"closepunctuation", "Pe"},
                                               {"initialpunctuation", "Pi"},
                                               {"finalpunctuation", "Pf"},
                                               {"otherpunctuation", "Po"},
                                               {"symbol", "S"},
                                               {"mathsymbol", "Sm"},
                                               {"currencysymbol", "Sc"},
                                               {"modifiersymbol", "Sk"},
                                               {"othersymbol", "So"},
                                               {"separator", "Z"},
                                               {"spaceseparator", "Zs"},
                                               {"lineseparator", "Zl"},
                                               {"paragraphseparator", "Zp"},
                                               {"other", "C"},
                                               {"control", "Cc"},
                                               {"format", "Cf"},
                                               {"privateuse", "Co"},
                                               {"unassigned", "Cn"}}};

std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '_' || c == '-' || c == ' ') continue;
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return out;
}

bool compiles(const std::string& pattern) {
  int error;
  PCRE2_SIZE at;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  if (code == nullptr) return false;
  pcre2_code_free(code);
  return true;
}

std::string category_of(const std::string& name) {
  for (const Name& category : kCategories) {
    if (category.name == name) return category.items;
  }
  if (name == "lc") return "L&";
  if (name.empty() || name.size() > 2 || std::string_view("lmnpszc").find(name[0]) == std::string_view::npos) return {};
  std::string property = name;
  property[0] = static_cast<char>(property[0] - 32);
  return compiles("\\p{" + property + "}") ? property : std::string();
}

}  // namespace

void CharacterSet::add_not(const std::string& other_items) { others += fmt::format("|[^{}]", other_items); }
void CharacterSet::add_literal(char32_t c) { items += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(c)); }
void CharacterSet::add_range(char32_t from, char32_t to) {
  items += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(from), static_cast<uint32_t>(to));
}
void CharacterSet::add(const CharacterSet& other) {
  items += other.items;
  others += other.others;
}

std::string CharacterSet::pattern(bool negated) const {
  if (others.empty()) return fmt::format("[{}{}]", negated ? "^" : "", items);
  const std::string any = items.empty() ? fmt::format("(?:{})", others.substr(1)) : fmt::format("(?:[{}]{})", items, others);
  return negated ? fmt::format("(?:(?!{})(?s:.))", any) : any;
}

bool add_named_class(CharacterSet& set, char letter) {
  switch (letter) {
    case 's': set.items += kWhiteSpaceSet; return true;
    case 'S': set.items += kNotSpace; return true;
    case 'w': set.items += kWord; return true;
    case 'W': set.add_not(kWord); return true;
    case 'd': set.items += R"(\p{Nd})"; return true;
    case 'D': set.items += R"(\P{Nd})"; return true;
    case 'h': set.items += "0-9A-Fa-f"; return true;
    case 'H': set.add_not("0-9A-Fa-f"); return true;
    default: return false;
  }
}

void add_property(CharacterSet& set, std::string_view given, bool negated) {
  const std::string name = folded(given);
  if (const std::string category = category_of(name); !category.empty()) {
    set.items += fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', category);
    return;
  }
  for (const Name& posix : kPosix) {
    if (posix.name != name) continue;
    const char* items = name == "punct" ? R"(\p{P})" : name == "word" ? kWord : posix.items;
    if (negated) {
      set.add_not(items);
    } else {
      set.items += items;
    }
    return;
  }
  // By script, not by script extension, which is what a bare name means to PCRE2.
  for (const std::string& property : {"sc:" + name, name}) {
    if (!compiles("\\p{" + property + "}")) continue;
    set.items += fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', property);
    return;
  }
  throw Error(Code::kUnsupported, fmt::format("unknown Unicode property '\\p{{{}}}' in a pattern", given));
}

bool read_property_name(std::string_view pattern, size_t& at, std::string& name, bool& negated) {
  negated = pattern[at] == 'P';
  if (at + 1 >= pattern.size() || pattern[at + 1] != '{') return false;
  const size_t close = pattern.find('}', at);
  if (close == std::string_view::npos) return false;
  name = std::string(pattern.substr(at + 2, close - at - 2));
  if (!name.empty() && name[0] == '^') {
    negated = !negated;
    name.erase(0, 1);
  }
  at = close + 1;
  return true;
}

namespace {

bool read_number(std::string_view digits, int base, char32_t& c) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size() || value > 0x10FFFF) return false;
  c = value;
  return true;
}

size_t count_digits(std::string_view text, size_t most) {
  const std::string_view digits = "0123456789abcdefABCDEF";
  size_t n = 0;
  while (n < most && n < text.size() && digits.find(text[n]) != std::string_view::npos) ++n;
  return n;
}

// \x{1F600}, \x41, 中
bool read_hexadecimal(std::string_view pattern, size_t& at, char32_t& c) {
  if (at + 1 < pattern.size() && pattern[at] == 'x' && pattern[at + 1] == '{') {
    const size_t close = pattern.find('}', at);
    if (close == std::string_view::npos || !read_number(pattern.substr(at + 2, close - at - 2), 16, c)) return false;
    at = close + 1;
    return true;
  }
  const size_t n = count_digits(pattern.substr(at + 1), pattern[at] == 'x' ? 2 : 4);
  if (n == 0 || (pattern[at] == 'u' && n != 4)) return false;
  if (!read_number(pattern.substr(at + 1, n), 16, c)) return false;
  at += 1 + n;
  return true;
}

}  // namespace

bool read_escaped_character(std::string_view pattern, size_t& at, char32_t& c) {
  switch (pattern[at]) {
    case 'n': c = '\n'; break;
    case 't': c = '\t'; break;
    case 'r': c = '\r'; break;
    case 'f': c = '\f'; break;
    case 'v': c = '\v'; break;  // the character; a class in PCRE2
    case 'a': c = '\a'; break;
    case 'e': c = 0x1B; break;
    case 'x':
    case 'u': return read_hexadecimal(pattern, at, c);
    case '0': {
      size_t n = 0;
      while (n < 3 && at + n < pattern.size() && pattern[at + n] >= '0' && pattern[at + n] <= '7') ++n;
      if (!read_number(pattern.substr(at, n), 8, c)) return false;
      at += n;
      return true;
    }
    default: return false;
  }
  ++at;
  return true;
}

namespace {

class BracketReader {
 public:
  BracketReader(std::string_view pattern, size_t& at) : pattern_(pattern), at_(at) {}

  // at_ is at '['.
  std::string read(int depth) {
    CharacterSet simple;
    bool negated = false;
    return read(depth, simple, negated) ? simple.pattern(negated) : result_;
  }

 private:
  // True if the set is one list; false if it is an intersection, whose pattern is then in result_.
  bool read(int depth, CharacterSet& set, bool& negated) {
    if (depth > kMaxNesting) throw Error(Code::kUnsupported, "a pattern nests more than 32 brackets");
    ++at_;
    negated = peek() == '^';
    if (negated) ++at_;
    std::string heads;  // a lookahead for every part of an intersection but the last
    bool first = true;
    while (first || peek() != ']') {
      first = false;
      if (at_ >= pattern_.size()) throw Error(Code::kBadModel, "a pattern has a '[' without its ']'");
      if (pattern_.substr(at_, 2) == "&&") {
        at_ += 2;
        heads += fmt::format("(?={})", set.pattern(false));
        set = {};
        continue;
      }
      read_item(depth, set);
    }
    ++at_;
    if (heads.empty()) return true;
    const std::string all = fmt::format("(?:{}{})", heads, set.pattern(false));
    result_ = negated ? fmt::format("(?:(?!{})(?s:.))", all) : all;
    return false;
  }

  void read_item(int depth, CharacterSet& set) {
    if (peek() == '[' && read_posix(set)) return;
    if (peek() == '[') {
      read_nested(depth, set);
      return;
    }
    char32_t from;
    if (!read_character(set, from)) return;
    if (peek() != '-' || at_ + 1 >= pattern_.size() || pattern_[at_ + 1] == ']' || pattern_.substr(at_ + 1, 2) == "&&") {
      set.add_literal(from);
      return;
    }
    ++at_;
    char32_t to;
    CharacterSet end;
    if (peek() == '[' || !read_character(end, to)) {  // a range cannot end in a class: the hyphen is a literal
      set.add_literal(from);
      set.add_literal('-');
      set.add(end);
      return;
    }
    if (to < from) throw Error(Code::kBadModel, "a pattern has a reversed character range");
    set.add_range(from, to);
  }

  void read_nested(int depth, CharacterSet& set) {
    CharacterSet inner;
    bool negated = false;
    if (!read(depth + 1, inner, negated)) {
      set.others += fmt::format("|{}", result_);
    } else if (negated) {
      set.others += fmt::format("|{}", inner.pattern(true));
    } else {
      set.add(inner);
    }
  }

  // False if a class was added to `set` instead of a character.
  bool read_character(CharacterSet& set, char32_t& c) {
    if (peek() != '\\') {
      const char* p = pattern_.data() + at_;
      c = utf8::next(p);
      at_ = static_cast<size_t>(p - pattern_.data());
      return true;
    }
    if (++at_ >= pattern_.size()) throw Error(Code::kBadModel, "a pattern ends in a backslash");
    const char letter = pattern_[at_];
    if (letter == 'w' || letter == 'W') {  // inside brackets, \w does not include those of Latin-1
      ++at_;
      if (letter == 'w') {
        set.items += kPosixWord;
      } else {
        set.add_not(kPosixWord);
      }
      return false;
    }
    if (add_named_class(set, letter)) {
      ++at_;
      return false;
    }
    std::string name;
    bool negated;
    if ((letter == 'p' || letter == 'P') && read_property_name(pattern_, at_, name, negated)) {
      add_property(set, name, negated);
      return false;
    }
    if (letter == 'b') {
      ++at_;
      c = '\b';
      return true;
    }
    if (read_escaped_character(pattern_, at_, c)) return true;
    const char* p = pattern_.data() + at_;
    c = utf8::next(p);
    at_ = static_cast<size_t>(p - pattern_.data());
    return true;
  }

  bool read_posix(CharacterSet& set) {
    if (pattern_.substr(at_, 2) != "[:") return false;
    const size_t close = pattern_.find(":]", at_ + 2);
    if (close == std::string_view::npos) return false;
    std::string_view name = pattern_.substr(at_ + 2, close - at_ - 2);
    const bool negated = !name.empty() && name[0] == '^';
    if (negated) name.remove_prefix(1);
    const auto found = std::find_if(kPosix.begin(), kPosix.end(), [&](const Name& posix) { return posix.name == name; });
    if (found == kPosix.end()) return false;
    if (negated) {
      set.add_not(found->items);
    } else {
      set.items += found->items;
    }
    at_ = close + 2;
    return true;
  }

  char peek() const { return at_ < pattern_.size() ? pattern_[at_] : '\0'; }

  std::string_view pattern_;
  size_t& at_;
  std::string result_;
};

}  // namespace

std::string translate_bracket(std::string_view pattern, size_t& at) { return BracketReader(pattern, at).read(0); }

}  // namespace kvik::text
