#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvik/error.h"
#include "text/regex/regex.h"
#include "text/regex/regex_syntax.h"

namespace kvik::text {
namespace {

std::vector<std::string> matches(std::string_view pattern, const std::string& text) {
  const Regex regex{pattern};
  RegexScratch scratch;
  Matches found(regex, scratch, text);
  std::vector<std::string> out;
  for (size_t begin, end; found.next(begin, end);) out.push_back(text.substr(begin, end - begin));
  return out;
}

using Strings = std::vector<std::string>;

TEST(Regex, PlusAfterAnIntervalIsNotPossessive) {
  EXPECT_EQ(matches(R"(\d{1,3}+)", "1234567"), Strings({"1234567"}));
  EXPECT_EQ(matches(R"(\d{1,3})", "1234567"), Strings({"123", "456", "7"}));
  EXPECT_EQ(matches(R"(a{2}?)", "aaa"), Strings({"aa", ""}));
}

TEST(Regex, NestedClassesAndIntersectionsMatch) {
  EXPECT_EQ(matches(R"([a-z&&[^aeiou]]+)", "hello"), Strings({"h", "ll"}));
  EXPECT_EQ(matches(R"([\p{L}&&[^\p{Han}]]+)", "ab中c"), Strings({"ab", "c"}));
  EXPECT_EQ(matches(R"([^a[bc]]+)", "abxcy"), Strings({"x", "y"}));
  EXPECT_EQ(matches(R"([^\W\d]+)", "ab1_é"), Strings({"ab", "_é"}));
}

TEST(Regex, WhiteSpaceIsUnicode) {
  EXPECT_EQ(matches(R"(\s)", "a\u0085b\u00A0c\u200Bd\u3000\u180Ee").size(), 3u);
  EXPECT_EQ(matches(R"([\s])", "\u1680\u2029").size(), 2u);
  EXPECT_EQ(matches(R"(\S+)", "a\u200Bb c"), Strings({"a\u200Bb", "c"}));
}

TEST(Regex, AnchorsMatchAtEveryLine) {
  EXPECT_EQ(matches("^.", "ab\ncd"), Strings({"a", "c"}));
  EXPECT_EQ(matches(".$", "ab\ncd"), Strings({"b", "d"}));
  EXPECT_EQ(matches("(?m).+", "a\nb"), Strings({"a\nb"}));
}

TEST(Regex, CaseInsensitiveSMatchesTheLongS) { EXPECT_EQ(matches("(?i:'s)", "'s'S'ſ").size(), 3u); }

TEST(Regex, OptionAppliesToTheEndOfItsGroup) { EXPECT_EQ(matches("a(?i)b|c", "aB aC ac c"), Strings({"aB", "aC", "ac"})); }

TEST(Regex, EmptyMatchesAreBetweenCharactersButNotAfterAMatch) {
  EXPECT_EQ(matches("x*", "axb"), Strings({"", "x", ""}));
  EXPECT_EQ(matches("", "é"), Strings({"", ""}));
}

TEST(Regex, InvalidPatternsAreRefused) {
  const auto refused = [](const char* pattern, const char* message) {
    EXPECT_THAT([&] { Regex{pattern}; }, testing::ThrowsMessage<Error>(testing::HasSubstr(message))) << pattern;
  };
  refused("(", "the pattern '(' does not compile");
  refused("[a", "a '[' without its ']'");
  refused(R"(\p{NoSuchThing})", "unknown Unicode property '\\p{NoSuchThing}'");
  refused("(?~a)", "not supported");
}

TEST(Regex, ExponentialBacktrackingIsRefused) {
  EXPECT_THAT([] { matches("(a+)+$", std::string(60, 'a') + "b"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("backtracks too far")));
}

TEST(Regex, LongRunsDoNotOverflowTheStack) {
  const std::string spaces(1'000'000, ' ');
  EXPECT_EQ(matches(R"(\s*[\r\n]+|\s+(?!\S)|\s+)", spaces + "x").size(), 2u);
  EXPECT_EQ(matches(R"( ?\p{L}+)", std::string(1'000'000, 'a')).size(), 1u);
}

}  // namespace
}  // namespace kvik::text
