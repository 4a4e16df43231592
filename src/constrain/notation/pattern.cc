#include "constrain/notation/pattern.h"

#include "constrain/notation/cursor.h"
#include "text/unicode/unicode.h"

namespace kvik::constrain {
namespace {

struct Part {
  uint32_t from, to;
};

CharSet chars_where(bool (*holds)(char32_t)) {
  std::vector<CharRange> ranges;
  for (char32_t c = 0x80; c <= kLastChar; ++c) {
    if (holds(c)) ranges.push_back({c, c});
  }
  return CharSet(std::move(ranges));
}

// ECMAScript's \d and \w are ASCII, those of Python are not, and their white space differs. A class is what both have, and its complement
// what neither has, so that texts match in every dialect.
struct CharClass {
  CharSet both, either;
};
const CharClass& digits() {
  static const CharSet ascii = {{'0', '9'}};
  static const CharClass all = {ascii, ascii.unite(chars_where(text::unicode::is_number))};
  return all;
}
const CharClass& word_characters() {
  static const CharSet ascii = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  static const CharClass all = {ascii, ascii.unite(chars_where(text::unicode::is_word)).unite(digits().either)};
  return all;
}
const CharClass& spaces() {
  static const CharSet both = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                               {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
  static const CharClass all = {both, both.unite({{0x1C, 0x1F}, {0x85, 0x85}, {0xFEFF, 0xFEFF}})};
  return all;
}

class PatternParser {
 public:
  PatternParser(std::string_view pattern, std::string_view what, Dialects dialects)
      : in_(pattern, what), is_wide_(dialects == Dialects::kEither) {}

  PatternNfa parse() {
    const Part all = parse_choice();
    if (in_.peek() == ')') in_.fail("')' without '('");
    if (!in_.at_end()) in_.fail(fmt::format("'{}' was not expected", in_.peek()));
    connect(0, all.from);
    connect(all.to, 1);
    return std::move(nfa_);
  }

 private:
  uint32_t new_state() {
    if (nfa_.n_states >= kMostStates / 4) in_.fail(fmt::format("the pattern needs more than {} states", kMostStates / 4));
    return nfa_.n_states++;
  }
  void connect(uint32_t from, uint32_t to, PatternNfa::Kind kind = PatternNfa::Kind::kEmpty) { nfa_.edges.push_back({from, to, kind}); }
  Part new_part() {
    const uint32_t from = new_state();
    return {from, new_state()};
  }
  Part of_set(const CharSet& set) {
    const Part part = new_part();
    nfa_.edges.push_back({part.from, part.to, PatternNfa::Kind::kChars, static_cast<uint32_t>(nfa_.sets.size())});
    nfa_.sets.push_back(set);
    return part;
  }
  Part of_kind(PatternNfa::Kind kind) {
    const Part part = new_part();
    connect(part.from, part.to, kind);
    return part;
  }

  Part parse_choice() {
    Part first = parse_sequence();
    if (in_.peek() != '|') return first;
    const Part choice = new_part();
    connect(choice.from, first.from);
    connect(first.to, choice.to);
    while (in_.skip('|')) {
      const Part option = parse_sequence();
      connect(choice.from, option.from);
      connect(option.to, choice.to);
    }
    return choice;
  }

  Part parse_sequence() {
    const uint32_t from = new_state();
    uint32_t to = from;
    while (!in_.at_end() && in_.peek() != '|' && in_.peek() != ')') {
      const size_t n_states = nfa_.n_states, n_edges = nfa_.edges.size();
      const Part part = parse_repetition(parse_atom(), n_states, n_edges);
      connect(to, part.from);
      to = part.to;
    }
    return {from, to};
  }

  // Whether this is {m}, {m,} or {m,n}; any other brace is a character.
  bool is_count() const {
    size_t n = 1;
    const auto skip_digits = [&] {
      const size_t begin = n;
      while (in_.peek(n) >= '0' && in_.peek(n) <= '9') ++n;
      return n > begin;
    };
    if (!skip_digits()) return false;
    if (in_.peek(n) == ',') ++n;
    skip_digits();
    return in_.peek(n) == '}';
  }

  // The states and edges from these numbers on are those of the part: copies of it are made from them.
  Part parse_repetition(Part part, size_t first_state, size_t first_edge) {
    if (in_.peek() == '{' && !is_count()) return part;
    const std::optional<Cursor::Times> times = in_.repetition(false, "a number was expected after '{'");
    if (!times) return part;
    in_.skip('?');  // lazy: matches the same texts
    const char next = in_.peek();
    if (next == '*' || next == '+' || (next == '{' && is_count())) in_.fail("there is nothing to repeat");
    return repeat(part, *times, static_cast<uint32_t>(first_state), first_edge);
  }

  Part repeat(Part part, Cursor::Times times, uint32_t first_state, size_t first_edge) {
    const uint32_t end_state = nfa_.n_states;
    const size_t end_edge = nfa_.edges.size();
    const auto copy = [&] {
      const uint32_t moved = nfa_.n_states - first_state;
      for (uint32_t i = first_state; i < end_state; ++i) new_state();
      for (size_t i = first_edge; i < end_edge; ++i) {
        PatternNfa::Edge edge = nfa_.edges[i];
        edge.from += moved;
        edge.to += moved;
        nfa_.edges.push_back(edge);
      }
      return Part{part.from + moved, part.to + moved};
    };
    const Part whole = new_part();
    uint32_t at = whole.from;
    for (int i = 0; i < times.least; ++i) {
      const Part one = copy();
      connect(at, one.from);
      at = one.to;
    }
    if (times.most == kNoLimit) {
      const uint32_t loop = new_state();
      connect(at, loop);
      connect(loop, part.from);
      connect(part.to, loop);
      connect(loop, whole.to);
      return whole;
    }
    for (int i = times.least; i < times.most; ++i) {
      connect(at, whole.to);
      const Part one = copy();
      connect(at, one.from);
      at = one.to;
    }
    connect(at, whole.to);
    return whole;
  }

  Part parse_atom() {
    const char c = in_.peek();
    switch (c) {
      case '(': return parse_group();
      case '[': return of_set(parse_class());
      case '^': in_.advance(); return of_kind(PatternNfa::Kind::kAtStart);
      case '$': in_.advance(); return of_end();
      case '.': {
        in_.advance();
        const CharSet line_break = CharSet::of('\n');
        return of_set((is_wide_ ? line_break : line_break.unite({{'\r', '\r'}, {0x2028, 0x2029}})).negate());
      }
      case '*':
      case '+':
      case '?': in_.fail("there is nothing to repeat");
      case '\\': {
        const size_t at = in_.at();
        in_.advance();
        if (in_.at_end()) in_.fail("an escape was expected after '\\'");
        if (in_.peek() == 'b' || in_.peek() == 'B') in_.fail_at(at, "word boundaries (\\b, \\B) are not supported");
        if (in_.peek() >= '1' && in_.peek() <= '9') in_.fail_at(at, "backreferences are not supported");
        if (in_.peek() == 'k') in_.fail_at(at, "backreferences are not supported");
        return of_set(parse_escape(at, is_wide_));
      }
      default: return of_set(CharSet::of(in_.next_character()));
    }
  }

  Part parse_group() {
    const Cursor::Nesting nesting(in_);
    const size_t at = in_.at();
    in_.advance();
    if (in_.skip('?')) {
      if (in_.peek() == '=' || in_.peek() == '!' || in_.looking_at("<=") || in_.looking_at("<!"))
        in_.fail_at(at, "lookahead and lookbehind are not supported");
      if (in_.skip('<') || in_.skip("P<")) {
        while (!in_.at_end() && in_.peek() != '>') in_.advance();
        if (!in_.skip('>')) in_.fail("'>' was expected after the name of a group");
      } else if (!in_.skip(':')) {
        in_.fail_at(at, "groups other than (…), (?:…) and (?<name>…) are not supported");
      }
    }
    const Part group = parse_choice();
    if (!in_.skip(')')) in_.fail("')' was expected");
    return group;
  }

  // Python's $ is also before a last line break.
  Part of_end() {
    const Part end = of_kind(PatternNfa::Kind::kAtEnd);
    if (!is_wide_) return end;
    const Part line_break = of_set(CharSet::of('\n'));
    connect(end.from, line_break.from);
    connect(line_break.to, end.to, PatternNfa::Kind::kAtEnd);
    return end;
  }

  // After the backslash, which is at `at`. `negated`: in a class whose complement is meant.
  CharSet parse_escape(size_t at, bool negated) {
    const char c = in_.peek();
    in_.advance();
    switch (c) {
      case 'd': return negated ? digits().either : digits().both;
      case 'D': return (negated ? digits().both : digits().either).negate();
      case 'w': return negated ? word_characters().either : word_characters().both;
      case 'W': return (negated ? word_characters().both : word_characters().either).negate();
      case 's': return negated ? spaces().either : spaces().both;
      case 'S': return (negated ? spaces().both : spaces().either).negate();
      case 't': return CharSet::of('\t');
      case 'n': return CharSet::of('\n');
      case 'v': return CharSet::of('\v');
      case 'f': return CharSet::of('\f');
      case 'r': return CharSet::of('\r');
      case '0': return CharSet::of(0);
      case 'x': return CharSet::of(in_.hex(2));
      case 'u': return CharSet::of(parse_unicode(at));
      case 'c': return CharSet::of(in_.next_character() % 32);
      case 'p':
      case 'P': in_.fail_at(at, "classes of Unicode properties (\\p) are not supported");
      default: break;
    }
    const char lower = static_cast<char>(c | 32);
    if ((lower >= 'a' && lower <= 'z') || (c >= '1' && c <= '9')) in_.fail_at(at, fmt::format("unknown escape '\\{}'", c));
    in_.advance(static_cast<size_t>(-1));
    return CharSet::of(in_.next_character());
  }

  char32_t parse_unicode(size_t at) {
    char32_t c = 0;
    if (in_.skip('{')) {
      const size_t begin = in_.at();
      while (!in_.at_end() && in_.peek() != '}' && in_.at() - begin < 8) c = c * 16 + in_.hex(1);
      if (!in_.skip('}')) in_.fail("'}' was expected");
    } else {
      c = in_.hex(4);
      if (c >= 0xD800 && c <= 0xDBFF && in_.skip("\\u")) c = 0x10000 + ((c - 0xD800) << 10) + ((in_.hex(4) - 0xDC00) & 0x3FF);
    }
    if (c > kLastChar || (c >= 0xD800 && c <= 0xDFFF))
      in_.fail_at(at, fmt::format("U+{:04X} is not a character", static_cast<uint32_t>(c)));
    return c;
  }

  CharSet parse_class_item(bool negated) {
    if (in_.at_end()) in_.fail("']' was expected");
    if (in_.peek() != '\\') return CharSet::of(in_.next_character());
    const size_t at = in_.at();
    in_.advance();
    if (in_.at_end()) in_.fail("an escape was expected after '\\'");
    if (in_.skip('b')) return CharSet::of('\b');
    return parse_escape(at, negated);
  }

  static bool is_one(const CharSet& set) { return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last; }

  CharSet parse_class() {
    in_.advance();
    const bool negated = in_.skip('^');
    CharSet set;
    std::vector<CharRange> ranges;
    while (!in_.skip(']')) {
      const CharSet item = parse_class_item(negated != is_wide_);
      if (in_.peek() == '-' && in_.peek(1) != ']' && is_one(item)) {
        in_.advance();
        const CharSet last = parse_class_item(negated != is_wide_);
        if (is_one(last)) {
          if (last.ranges()[0].first < item.ranges()[0].first) in_.fail("a range of characters ends before it begins");
          ranges.push_back({item.ranges()[0].first, last.ranges()[0].first});
          continue;
        }
        ranges.push_back({'-', '-'});  // [a-\d]: the hyphen is a character
        ranges.insert(ranges.end(), last.ranges().begin(), last.ranges().end());
      }
      ranges.insert(ranges.end(), item.ranges().begin(), item.ranges().end());
    }
    set = CharSet(std::move(ranges));
    return negated ? set.negate() : set;
  }

  Cursor in_;
  bool is_wide_;
  PatternNfa nfa_;
};

}  // namespace

PatternNfa parse_pattern(std::string_view pattern, std::string_view what, Dialects dialects) {
  return PatternParser(pattern, what, dialects).parse();
}

}  // namespace kvik::constrain
