// Random grammars against a matcher by definition: which texts match, which can be continued, and which tokens are allowed.
#include <gmock/gmock.h>
#include <random>

#include "constrain/matcher.h"
#include "constrain/slow_matcher.h"
#include "constrain/support.h"
#include "kvik/error.h"

namespace kvik::constrain {
namespace {

class GrammarMaker {
 public:
  explicit GrammarMaker(uint32_t seed) : random_(seed) {}

  std::string make() {
    std::string text;
    for (int i = 0; i < kRules; ++i) text += name(i) + " ::= " + choice(i, 0) + "\n";
    return text;
  }

  // A text of the alphabet of the grammars.
  std::string text() {
    std::string result;
    for (int n = pick(9); n > 0; --n) result += characters_[static_cast<size_t>(pick(static_cast<int>(characters_.size())))];
    return result;
  }
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

 private:
  static constexpr int kRules = 4;
  static std::string name(int i) { return i == 0 ? "root" : "r" + std::to_string(i); }

  std::string choice(int rule, int depth) {
    std::string text = sequence(rule, depth);
    for (int n = pick(3); n > 0; --n) text += " | " + sequence(rule, depth);
    return text;
  }
  std::string sequence(int rule, int depth) {
    std::string text;
    bool reads = false;
    for (int n = 1 + pick(3); n > 0; --n) {
      bool reads_now = false;
      text += part(rule, depth, reads, reads_now) + " ";
      reads = reads || reads_now;
    }
    return text;
  }
  // Rules may be called again once something is read; before that only later ones, which rules out left recursion.
  std::string part(int rule, int depth, bool after, bool& reads) {
    const int kind = pick(10);
    if (kind < 4) {
      reads = true;
      return kLiterals[pick(static_cast<int>(std::size(kLiterals)))];
    }
    if (kind < 6) {
      reads = true;
      return kClasses[pick(static_cast<int>(std::size(kClasses)))];
    }
    if (kind < 7 && depth < 2) return "(" + choice(rule, depth + 1) + ")" + (after ? kRepeats[pick(6)] : "?");
    if (kind < 8) return kClasses[pick(static_cast<int>(std::size(kClasses)))] + std::string(kRepeats[pick(6)]);
    const int first = after ? 0 : rule + 1;
    if (first >= kRules) return "\"\"";
    return name(first + pick(kRules - first));
  }

  static constexpr const char* kLiterals[] = {"\"a\"", "\"ab\"", "\"b\"", "\"é\"", "\"ba\"", "\"\\u65e5\""};
  static constexpr const char* kClasses[] = {"[ab]", "[a-c]", "[^\\x00-`d-\\U0010FFFF]", "[é-í]", "[\\u65e5-\\u65e8b]", "[c]"};
  static constexpr const char* kRepeats[] = {"*", "+", "?", "{2}", "{1,3}", "{0,6}"};
  std::vector<std::string> characters_ = {"a", "b", "c", "é", "ê", "日", "d", "\xC3"};
  std::mt19937 random_;
};

// Grammars that have a match and are not left-recursive through empty parts; most of them are.
std::optional<TextReader> reader_of(const Grammar& grammar) {
  try {
    return std::optional<TextReader>(std::in_place, grammar);
  } catch (const Error&) { return std::nullopt; }
}

// The slow matcher takes every rule to have a match.
bool all_rules_match(const Grammar& grammar) {
  Grammar copy = grammar;
  for (RuleId rule = 0; rule < grammar.rules().size(); ++rule) {
    copy.set_root(rule);
    try {
      compile(copy, "grammar");
    } catch (const Error&) { return false; }
  }
  return true;
}

TEST(RandomGrammars, TextsMatchAndBeginMatchesAsByTheDefinition) {
  int n_complete = 0, n_begin = 0, n_dead = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    GrammarMaker maker(seed);
    const std::string notation = maker.make();
    const Grammar grammar = parse_gbnf(notation);
    std::optional<TextReader> reader = all_rules_match(grammar) ? reader_of(grammar) : std::nullopt;
    if (!reader) continue;
    for (int i = 0; i < 40; ++i) {
      const std::string text = maker.text();
      const SlowMatcher expected(grammar, text);
      ASSERT_EQ(reader->accepts(text), expected.complete()) << notation << "text: " << text;
      ASSERT_EQ(reader->begins_match(text), expected.begins_match()) << notation << "text: " << text;
      n_complete += expected.complete() ? 1 : 0;
      n_begin += expected.begins_match() ? 1 : 0;
      n_dead += expected.begins_match() ? 0 : 1;
    }
  }
  EXPECT_GT(n_complete, 400);
  EXPECT_GT(n_begin, 1000);
  EXPECT_GT(n_dead, 1000);
}

TEST(RandomGrammars, ATokenIsAllowedIfItsBytesBeginAMatch) {
  // Tokens that end within characters, span several parts of a grammar, or repeat the bytes of another.
  const std::vector<std::string> tokens = {"a",
                                           "b",
                                           "c",
                                           "ab",
                                           "ba",
                                           "aab",
                                           "bca",
                                           "é",
                                           "\xC3",
                                           "\xA9",
                                           "\xAAx",
                                           "a\xC3",
                                           "\xA9"
                                           "b",
                                           "日",
                                           "\xE6\x97",
                                           "\xA5",
                                           "d",
                                           "",
                                           "a",
                                           "abcabc",
                                           "b\xE6"};
  int n_allowed = 0, n_forbidden = 0;
  for (uint32_t seed = 1000; seed < 1200; ++seed) {
    GrammarMaker maker(seed);
    const std::string notation = maker.make();
    const Grammar grammar = parse_gbnf(notation);
    if (!all_rules_match(grammar)) continue;
    const auto texts = std::make_shared<const TokenTexts>(tokens, tokens.size());
    const auto constraint =
        std::make_shared<TokenConstraint>(std::make_shared<const Automaton>(compile(grammar, "grammar")), Vocabulary{texts, texts});
    Matcher matcher(constraint);
    std::string text;
    for (int step = 0; step < 6; ++step) {
      const Allowed allowed = matcher.allowed();
      ASSERT_EQ(allowed.end, SlowMatcher(grammar, text).complete()) << notation << "text: " << text;
      std::vector<TokenId> choices;
      for (TokenId id = 0; id < static_cast<TokenId>(tokens.size()); ++id) {
        const std::string& bytes = tokens[static_cast<size_t>(id)];
        const bool expected = !bytes.empty() && SlowMatcher(grammar, text + bytes).begins_match();
        ASSERT_EQ(allowed.tokens->contains(id), expected) << notation << "text: '" << text << "', token " << id << " '" << bytes << "'";
        if (expected) choices.push_back(id);
        (expected ? n_allowed : n_forbidden) += 1;
      }
      if (choices.empty()) break;
      const TokenId chosen = choices[static_cast<size_t>(maker.pick(static_cast<int>(choices.size())))];
      ASSERT_TRUE(matcher.accept(chosen));
      text += tokens[static_cast<size_t>(chosen)];
    }
  }
  EXPECT_GT(n_allowed, 1000);
  EXPECT_GT(n_forbidden, 1000);
}

}  // namespace
}  // namespace kvik::constrain
