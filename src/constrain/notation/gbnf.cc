#include "constrain/notation/gbnf.h"

#include <map>

#include "base/utf8.h"
#include "constrain/notation/cursor.h"

namespace kvik::constrain {
namespace {

bool is_name_character(char c) {
  const char lower = static_cast<char>(c | 32);
  return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : in_(text, "grammar") {}

  Grammar parse() {
    skip_space(true);
    while (!in_.at_end()) parse_rule();
    for (size_t i = 0; i < grammar_.rules().size(); ++i) {
      if (!grammar_.rules()[i].defined) in_.fail_at(first_use_[i], fmt::format("rule '{}' is not defined", grammar_.rules()[i].name));
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) throw Error(Code::kBadArgument, "the grammar has no rule 'root', with which matching begins");
    grammar_.set_root(root->second);
    return std::move(grammar_);
  }

 private:
  void skip_space(bool newlines) {
    for (;;) {
      const char c = in_.peek();
      if (c == '#') {
        while (!in_.at_end() && in_.peek() != '\n' && in_.peek() != '\r') in_.advance();
      } else if (!in_.at_end() && (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r')))) {
        in_.advance();
      } else {
        return;
      }
    }
  }

  std::string_view name() {
    const size_t begin = in_.at();
    while (is_name_character(in_.peek())) in_.advance();
    if (in_.at() == begin) in_.fail("the name of a rule was expected");
    return in_.since(begin);
  }

  RuleId rule_named(std::string_view text, size_t at) {
    const auto [place, is_new] = rules_.try_emplace(std::string(text), 0);
    if (is_new) {
      place->second = grammar_.add_rule(std::string(text));
      first_use_.push_back(at);
    }
    return place->second;
  }

  void parse_rule() {
    const size_t at = in_.at();
    const std::string_view text = name();
    skip_space(false);
    if (!in_.skip("::=")) in_.fail(fmt::format("'::=' was expected after '{}'", text));
    const RuleId rule = rule_named(text, at);
    if (grammar_.rules()[rule].defined) in_.fail_at(at, fmt::format("rule '{}' is defined twice", text));
    skip_space(true);
    grammar_.define(rule, parse_choice(false));
    if (!in_.at_end() && in_.peek() != '\n' && in_.peek() != '\r') in_.fail("the end of the rule was expected");
    skip_space(true);
  }

  NodeId parse_choice(bool in_group) {
    std::vector<NodeId> options = {parse_sequence(in_group)};
    while (in_.skip('|')) {
      skip_space(true);
      options.push_back(parse_sequence(in_group));
    }
    return options.size() == 1 ? options.front() : grammar_.choice(std::move(options));
  }

  NodeId parse_sequence(bool in_group) {
    std::vector<NodeId> parts;
    while (const std::optional<NodeId> part = parse_part()) {
      parts.push_back(*part);
      skip_space(in_group);
      while (parse_repetition(parts.back())) skip_space(in_group);
    }
    return parts.size() == 1 ? parts.front() : grammar_.sequence(std::move(parts));
  }

  std::optional<NodeId> parse_part() {
    const char c = in_.peek();
    if (in_.at_end()) return std::nullopt;
    if (c == '"') return parse_literal();
    if (c == '[') return grammar_.chars(parse_class());
    if (in_.skip('.')) return grammar_.chars(CharSet::all());
    if (c == '(') {
      const Cursor::Nesting nesting(in_);
      in_.advance();
      skip_space(true);
      const NodeId group = parse_choice(true);
      if (!in_.skip(')')) in_.fail("')' was expected");
      return group;
    }
    if (is_name_character(c)) {
      const size_t at = in_.at();
      const RuleId rule = rule_named(name(), at);
      return grammar_.call(rule);
    }
    if (c == '<' || c == '!') in_.fail("tokens in a grammar are not supported; write their text");
    return std::nullopt;
  }

  bool parse_repetition(NodeId& last) {
    const std::optional<Cursor::Times> times = in_.repetition(true, "a number was expected after '{'");
    if (!times) return false;
    last = grammar_.repeat(last, times->least, times->most);
    return true;
  }

  char32_t parse_character() {
    if (in_.at_end()) in_.fail("the text ends inside of a literal or class");
    if (in_.peek() != '\\') return in_.next_character();
    in_.advance();
    const size_t at = in_.at();
    const char c = in_.peek();
    if (in_.at_end()) in_.fail("an escape was expected after '\\'");
    in_.advance();
    switch (c) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'x': return in_.hex(2);
      case 'u': return checked(in_.hex(4), at);
      case 'U': return checked(in_.hex(8), at);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '^':
      case '-': return static_cast<char32_t>(c);
      default: in_.fail_at(at, fmt::format("unknown escape '\\{}'", c));
    }
  }

  char32_t checked(char32_t c, size_t at) const {
    if (c > kLastChar || (c >= 0xD800 && c <= 0xDFFF))
      in_.fail_at(at, fmt::format("U+{:04X} is not a character", static_cast<uint32_t>(c)));
    return c;
  }

  NodeId parse_literal() {
    in_.advance();
    std::string text;
    while (!in_.skip('"')) utf8::append(text, parse_character());
    return grammar_.bytes(text);
  }

  CharSet parse_class() {
    in_.advance();
    const bool negated = in_.skip('^');
    std::vector<CharRange> ranges;
    while (!in_.skip(']')) {
      const char32_t first = parse_character();
      char32_t last = first;
      if (in_.peek() == '-' && in_.peek(1) != ']') {
        in_.advance();
        last = parse_character();
        if (last < first) in_.fail("a range of characters ends before it begins");
      }
      ranges.push_back({first, last});
    }
    const CharSet set(std::move(ranges));
    return negated ? set.negate() : set;
  }

  Cursor in_;
  Grammar grammar_;
  std::map<std::string, RuleId, std::less<>> rules_;
  std::vector<size_t> first_use_;
};

}  // namespace

Grammar parse_gbnf(std::string_view text) { return GbnfParser(text).parse(); }

}  // namespace kvik::constrain
