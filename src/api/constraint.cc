#include <algorithm>

#include "api/constraint_state.h"
#include "constrain/notation/char_dfa.h"
#include "constrain/notation/gbnf.h"
#include "constrain/schema/schema.h"
#include "text/token_bytes.h"

namespace kvik {
namespace {

constexpr size_t kMostKnown = 16;  // constraints of one model

std::shared_ptr<const Constraint::State> compiled(std::string kind, std::string_view text, const constrain::Grammar& grammar) {
  auto automaton = std::make_shared<const constrain::Automaton>(constrain::compile(grammar, kind.c_str()));
  return std::make_shared<const Constraint::State>(Constraint::State{kind + '\n' + std::string(text), std::move(automaton)});
}

constrain::Vocabulary vocabulary_of(const text::Tokenizer& tokenizer, size_t vocab_size) {
  text::TokenBytes bytes = text::token_bytes(tokenizer);
  constrain::Vocabulary vocabulary;
  if (bytes.first != bytes.later) vocabulary.first = std::make_shared<constrain::TokenTexts>(std::move(bytes.first), vocab_size);
  vocabulary.later = std::make_shared<constrain::TokenTexts>(std::move(bytes.later), vocab_size);
  if (vocabulary.first == nullptr) vocabulary.first = vocabulary.later;
  return vocabulary;
}

}  // namespace

Constraint Constraint::json_schema(std::string_view schema) {
  return Constraint(compiled("JSON schema", schema, constrain::parse_schema(schema)));
}

Constraint Constraint::json_object() { return json_schema(R"({"type": "object"})"); }

Constraint Constraint::regex(std::string_view pattern) {
  constexpr const char* kWhat = "regular expression";
  constrain::Grammar grammar;
  const constrain::RuleId root = grammar.add_rule("root");
  const constrain::CharDfa dfa = constrain::CharDfa::of_whole(constrain::parse_pattern(pattern, kWhat), kWhat);
  grammar.define(root, dfa.to_node(grammar));
  grammar.set_root(root);
  return Constraint(compiled(kWhat, pattern, grammar));
}

Constraint Constraint::grammar(std::string_view gbnf) { return Constraint(compiled("grammar", gbnf, constrain::parse_gbnf(gbnf))); }

namespace api {

std::shared_ptr<constrain::TokenConstraint> ModelConstraints::bind(const Constraint& constraint, const text::Tokenizer* tokenizer,
                                                                   size_t vocab_size) {
  if (tokenizer == nullptr) throw Error(Code::kBadArgument, "a constraint needs the text of tokens, and this model has no tokenizer");
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(entries_, constraint.state()->source, &Entry::source);
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return entries_.front().constraint;
  }
  if (!vocabulary_) vocabulary_ = vocabulary_of(*tokenizer, vocab_size);
  entries_.push_front(
      {constraint.state()->source, std::make_shared<constrain::TokenConstraint>(constraint.state()->automaton, *vocabulary_)});
  if (entries_.size() > kMostKnown) entries_.pop_back();
  return entries_.front().constraint;
}

}  // namespace api
}  // namespace kvik
