#include <gmock/gmock.h>
#include <random>
#include <regex>

#include "constrain/support.h"

namespace kvik::constrain {
namespace {

CharDfa whole(const std::string& pattern) { return CharDfa::of_whole(parse_pattern(pattern, "pattern"), "pattern"); }
CharDfa part(const std::string& pattern) { return CharDfa::of_part(parse_pattern(pattern, "pattern"), "pattern"); }

std::string pattern_error(const std::string& pattern) {
  return error_in([&] { whole(pattern); });
}

TEST(Patterns, MatchTheSameTextsAsTheStandardLibrary) {
  const std::vector<std::string> patterns = {
      "a*b",       "(ab|a)(bc|c)?", "[a-c]{2,3}", "a{2,}",  "(a|b)*c+", "^ab",       "ab$",    "^a|b$",  "a.c",     "[^ab]c",
      "\\d+-\\w",  "(?:a|)b",       "a?b?c?",     "^$",     "a|",       "(^a|b)c",   "b($|c)", "\\x61b", "[\\d.]+", "[a\\-c]+",
      "(a{2}){2}", "(a|ab)*$",      "(?:^|b)a",   "[^\\w]", "a{0}b",    "((a)(b))c", "c*?b",   "\\.",    "[]a]?b"};
  std::mt19937 random(1);
  int n_matching = 0;
  for (const std::string& pattern : patterns) {
    if (pattern == "[]a]?b") continue;  // an empty class in ECMAScript, which the standard library reads otherwise
    const std::regex expected(pattern);
    const CharDfa all = whole(pattern), some = part(pattern);
    for (int i = 0; i < 400; ++i) {
      std::string text;
      for (size_t n = random() % 7; n > 0; --n) text += "abc1.-"[random() % 6];
      ASSERT_EQ(all.matches(text), std::regex_match(text, expected)) << pattern << " on " << text;
      ASSERT_EQ(some.matches(text), std::regex_search(text, expected)) << pattern << " in " << text;
      n_matching += some.matches(text) ? 1 : 0;
    }
  }
  EXPECT_GT(n_matching, 1000);
}

TEST(Patterns, SetsOfTextsCanBeCombined) {
  const CharDfa three = CharDfa::of_lengths(3, 3);
  EXPECT_TRUE(whole("[ab]+").intersect(three).matches("aba"));
  EXPECT_FALSE(whole("[ab]+").intersect(three).matches("ab"));
  EXPECT_TRUE(whole("a+").complement().matches("ab"));
  EXPECT_FALSE(whole("a+").complement().matches("aa"));
  EXPECT_TRUE(whole("a+").intersect(whole("b+")).is_empty());
  EXPECT_TRUE(CharDfa::of_texts({"x", "xy", "日本"}).complement().matches("日"));
  EXPECT_FALSE(CharDfa::of_texts({"x", "xy", "日本"}).complement().matches("日本"));
  for (int n = 0; n < 200; ++n) EXPECT_EQ(CharDfa::of_multiples(7).matches(std::to_string(n)), n % 7 == 0) << n;
  EXPECT_TRUE(whole("[^a]|a").intersect(CharDfa::of_lengths(1, 1)).complement().intersect(CharDfa::of_lengths(1, 1)).is_empty());
}

// Those of ECMAScript and Python differ beyond ASCII: what is generated matches in both.
TEST(Patterns, ClassesAreThoseOfEveryDialect) {
  EXPECT_FALSE(whole("\\w").matches("é"));
  EXPECT_FALSE(whole("\\W").matches("é"));
  EXPECT_FALSE(whole("[^\\w]").matches("é"));
  EXPECT_TRUE(whole("\\W").matches("…"));
  EXPECT_FALSE(whole("\\D").matches("\u0663"));
  EXPECT_TRUE(whole("\\D").matches("é"));
  EXPECT_FALSE(whole("[^\\s]").matches("\x1c"));
  EXPECT_TRUE(whole("[^\\S]").matches(" "));
  EXPECT_FALSE(whole("\\s").matches("\uFEFF"));
}

TEST(Patterns, BracesThatAreNotACountAreLiterals) {
  EXPECT_TRUE(whole("a{b}{2}").matches("a{b}}"));
  EXPECT_TRUE(whole("^\\$\\{[a-z]+}$").matches("${name}"));
  EXPECT_TRUE(whole("{}").matches("{}"));
  EXPECT_TRUE(whole("x{,3}").matches("x{,3}"));
  EXPECT_TRUE(whole("b{2,}").matches("bbb"));
}

TEST(Patterns, WhatCannotBeCompiledIsNamed) {
  EXPECT_THAT(pattern_error("a(?=b)"), testing::HasSubstr("character 2: lookahead and lookbehind are not supported"));
  EXPECT_THAT(pattern_error("(a)\\1"), testing::HasSubstr("backreferences"));
  EXPECT_THAT(pattern_error("\\bword"), testing::HasSubstr("word boundaries"));
  EXPECT_THAT(pattern_error("\\p{L}"), testing::HasSubstr("Unicode properties"));
  EXPECT_THAT(pattern_error("(a"), testing::HasSubstr("')' was expected"));
  EXPECT_THAT(pattern_error("a)"), testing::HasSubstr("')' without '('"));
  EXPECT_THAT(pattern_error("*a"), testing::HasSubstr("nothing to repeat"));
  EXPECT_THAT(pattern_error("[b-a]"), testing::HasSubstr("ends before it begins"));
  EXPECT_THAT(pattern_error("a{3,1}"), testing::HasSubstr("is empty"));
  EXPECT_THAT(pattern_error("[a"), testing::HasSubstr("']' was expected"));
}

TEST(Patterns, HostilePatternsEndWithOneError) {
  EXPECT_THAT(pattern_error("a{1000000}"), testing::HasSubstr("is not supported"));
  EXPECT_THAT(pattern_error("((a{1000}){1000}){1000}"), testing::HasSubstr("states"));
  EXPECT_THAT(pattern_error("(a|b)*a(a|b){30}"), testing::HasSubstr("states"));
  EXPECT_THAT(pattern_error(std::string(100000, '(')), testing::HasSubstr("nested"));
}

}  // namespace
}  // namespace kvik::constrain
