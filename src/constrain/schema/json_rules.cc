#include "constrain/schema/json_rules.h"

#include <fmt/format.h>

namespace kvik::constrain {
namespace {

const CharSet& unescaped() {
  static const CharSet set = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kLastChar}};
  return set;
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

NodeId JsonRules::node_of(RuleId& rule, const char* name, NodeId (JsonRules::*write)()) {
  if (rule == kNone) {
    rule = grammar_.add_rule(name);  // before its body, which may refer to it
    grammar_.define(rule, (this->*write)());
  }
  return grammar_.call(rule);
}

NodeId JsonRules::pattern(const char* text) { return CharDfa::of_whole(parse_pattern(text, text), text).to_node(grammar_); }

NodeId JsonRules::write_space() { return pattern(R"(\x20?)"); }

// Surrogates only in pairs, which are one character.
NodeId JsonRules::write_character() {
  return pattern(
      R"([^"\\\x00-\x1F]|\\["\\/bfnrt]|\\u(?:[0-9A-Ca-cEFef][0-9A-Fa-f]{3}|[Dd][0-7][0-9A-Fa-f]{2})|\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})");
}

NodeId JsonRules::write_integer() { return pattern(R"(-?(?:0|[1-9][0-9]{0,15}))"); }
NodeId JsonRules::write_number() { return pattern(R"(-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,16})?(?:[eE][+-]?[0-9]{1,2})?)"); }

NodeId JsonRules::list_of(const char* brackets, NodeId entry) {
  const NodeId more = grammar_.repeat(after_comma(entry), 0, kNoLimit);
  const NodeId entries = grammar_.optional(grammar_.sequence({entry, more}));
  return grammar_.sequence({grammar_.bytes({brackets, 1}), space(), entries, space(), grammar_.bytes({brackets + 1, 1})});
}

NodeId JsonRules::write_value() {
  const NodeId value = grammar_.call(value_);
  return grammar_.choice({list_of("{}", entry(any_key(), value)), list_of("[]", value), string_of_length(0, kNoLimit), any_number(),
                          grammar_.bytes("true"), grammar_.bytes("false"), grammar_.bytes("null")});
}

NodeId JsonRules::string_of_length(int least, int most) {
  const auto [place, is_new] = strings_.try_emplace({least, most}, kNone);
  if (is_new) {
    const NodeId quote = grammar_.bytes("\"");
    place->second = grammar_.add_rule("a string");
    grammar_.define(place->second, grammar_.sequence({quote, grammar_.repeat(character(), least, most), quote}));
  }
  return grammar_.call(place->second);
}

NodeId JsonRules::escaped(const CharSet& set) {
  std::vector<NodeId> options;
  if (const CharSet plain = set.intersect(unescaped()); !plain.empty()) options.push_back(grammar_.chars(plain));
  if (const CharSet others = set.intersect(unescaped().negate()); !others.empty()) options.push_back(escapes(others));
  return grammar_.choice(std::move(options));
}

NodeId JsonRules::escapes(const CharSet& set) {
  const auto [place, is_new] = escapes_.try_emplace({set.ranges().begin(), set.ranges().end()}, kNone);
  if (is_new) {
    std::vector<NodeId> options;
    for (const CharRange& range : set.ranges()) {
      for (char32_t c = range.first; c <= range.last; ++c) {
        const std::string text = dump(std::string(1, static_cast<char>(c)));
        options.push_back(grammar_.bytes(text.substr(1, text.size() - 2)));
      }
    }
    place->second = grammar_.add_rule("escapes");
    grammar_.define(place->second, grammar_.choice(std::move(options)));
  }
  return grammar_.call(place->second);
}

NodeId JsonRules::string_in(const CharDfa& values) {
  const NodeId quote = grammar_.bytes("\"");
  return grammar_.sequence({quote, values.to_node(grammar_, [&](const CharSet& set) { return escaped(set); }), quote});
}

NodeId JsonRules::key(std::string_view name) { return grammar_.bytes(dump(std::string(name)) + ":"); }
NodeId JsonRules::key_in(const CharDfa& names) { return grammar_.sequence({string_in(names), grammar_.bytes(":")}); }
NodeId JsonRules::any_key() { return grammar_.sequence({string_of_length(0, kNoLimit), grammar_.bytes(":")}); }

NodeId JsonRules::after_comma(NodeId entry) { return grammar_.sequence({grammar_.bytes(","), space(), entry}); }

NodeId JsonRules::entry(NodeId key, NodeId value) { return grammar_.sequence({key, grammar_.optional(grammar_.bytes(" ")), value}); }

NodeId JsonRules::literal(const Json& value) {
  if (!value.is_structured() || value.empty()) return grammar_.bytes(dump(value));
  const bool is_object = value.is_object();
  std::vector<NodeId> parts = {grammar_.bytes(is_object ? "{" : "["), space()};
  bool first = true;
  for (const auto& item : value.items()) {
    const NodeId element = is_object ? entry(key(item.key()), literal(item.value())) : literal(item.value());
    parts.push_back(std::exchange(first, false) ? element : after_comma(element));
  }
  parts.push_back(space());
  parts.push_back(grammar_.bytes(is_object ? "}" : "]"));
  return grammar_.sequence(std::move(parts));
}

}  // namespace kvik::constrain
