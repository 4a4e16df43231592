#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "constrain/grammar.h"
#include "constrain/notation/char_dfa.h"

namespace kvik::constrain {

// The syntax of JSON as nodes of a grammar: on one line, strings with all escapes, numbers of at most 16 digits before and after the
// decimal point.
class JsonRules {
 public:
  explicit JsonRules(Grammar& grammar) : grammar_(grammar) {}

  NodeId space() { return node_of(space_, "white space", &JsonRules::write_space); }  // none or one
  NodeId character() { return node_of(character_, "a character of a string", &JsonRules::write_character); }
  NodeId any_value() { return node_of(value_, "any JSON value", &JsonRules::write_value); }
  NodeId any_number() { return node_of(number_, "a number", &JsonRules::write_number); }
  NodeId any_integer() { return node_of(integer_, "an integer", &JsonRules::write_integer); }

  NodeId string_of_length(int least, int most);
  NodeId string_in(const CharDfa& values);  // characters are escaped only if they must be
  NodeId key(std::string_view name);        // with the colon
  NodeId key_in(const CharDfa& names);
  NodeId any_key();
  NodeId literal(const Json& value);

  // [ elements ] with commas; entries of an object likewise.
  NodeId after_comma(NodeId entry);
  NodeId entry(NodeId key, NodeId value);

 private:
  static constexpr RuleId kNone = UINT32_MAX;
  NodeId node_of(RuleId& rule, const char* name, NodeId (JsonRules::*write)());
  NodeId write_space();
  NodeId write_character();
  NodeId write_value();
  NodeId write_number();
  NodeId write_integer();
  NodeId escaped(const CharSet& set);
  NodeId escapes(const CharSet& set);
  NodeId pattern(const char* pattern);
  NodeId list_of(const char* brackets, NodeId entry);

  Grammar& grammar_;
  std::map<std::pair<int, int>, RuleId> strings_;     // by their lengths
  std::map<std::vector<CharRange>, RuleId> escapes_;  // of these characters
  RuleId space_ = kNone, character_ = kNone, value_ = kNone, number_ = kNone, integer_ = kNone;
};

}  // namespace kvik::constrain
