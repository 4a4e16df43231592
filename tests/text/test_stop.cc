#include <gtest/gtest.h>
#include <random>

#include "text/stop.h"

namespace kvik::text {
namespace {

TEST(Stop, StopStringAcrossPartsIsNotOutput) {
  StopMatcher stop({"</end>"});
  EXPECT_EQ(stop.push("Hello <"), "Hello ");
  EXPECT_EQ(stop.push("/en"), "");
  EXPECT_FALSE(stop.stopped());
  EXPECT_EQ(stop.push("d> more"), "");
  EXPECT_EQ(stop.stopped(), 0u);
  EXPECT_EQ(stop.push("more"), "");
  EXPECT_EQ(stop.flush(), "");
}

TEST(Stop, TextThatIsNotAStopStringIsOutput) {
  StopMatcher stop({"aab"});
  EXPECT_EQ(stop.push("aa"), "");
  EXPECT_EQ(stop.push("a"), "a");
  EXPECT_EQ(stop.push("c"), "aac");
  EXPECT_EQ(stop.push("a"), "");
  EXPECT_EQ(stop.flush(), "a");
}

TEST(Stop, FirstCompletedStopStringWins) {
  StopMatcher stop({"abcd", "bc"});
  EXPECT_EQ(stop.push("xabcd"), "xa");
  EXPECT_EQ(stop.stopped(), 1u);
}

TEST(Stop, WithoutStopStringsEverythingIsOutput) {
  StopMatcher stop({"", ""});
  EXPECT_EQ(stop.push("any"), "any");
  EXPECT_EQ(stop.flush(), "");
  EXPECT_FALSE(stop.stopped());
}

TEST(Stop, ResultDoesNotDependOnHowTheTextIsSplit) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const auto letters = [&](size_t n) {
      std::string s;
      for (size_t i = 0; i < n; ++i) s += static_cast<char>('a' + random() % 3);
      return s;
    };
    const std::vector<std::string> stops = {letters(1 + random() % 4), letters(1 + random() % 5)};
    const std::string text = letters(random() % 24);
    StopMatcher whole(stops);
    std::string expected(whole.push(text));
    if (!whole.stopped()) expected += whole.flush();
    StopMatcher parts(stops);
    std::string shown;
    for (size_t at = 0; at < text.size() && !parts.stopped();) {
      const size_t n = 1 + random() % 3;
      shown += parts.push(std::string_view(text).substr(at, n));
      at += n;
      EXPECT_EQ(expected.rfind(shown, 0), 0u) << "shown too much of " << text;
    }
    if (!parts.stopped()) shown += parts.flush();
    EXPECT_EQ(shown, expected) << text;
    EXPECT_EQ(parts.stopped(), whole.stopped()) << text;
  }
}

}  // namespace
}  // namespace kvik::text
