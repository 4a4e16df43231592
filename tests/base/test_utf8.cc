#include <gtest/gtest.h>

#include "base/utf8.h"

namespace kvik {
namespace {

TEST(Utf8, InvalidBytesAreReplacedAsPythonDoes) {
  const auto replaced = [](std::string_view bytes) { return utf8::replaced(bytes); };
  EXPECT_EQ(replaced("plain"), "plain");
  EXPECT_EQ(replaced("a\xFFz"), "a\uFFFDz");
  EXPECT_EQ(replaced("\xE2\x82"), "\uFFFD");  // truncated: one
  EXPECT_EQ(replaced("\xE2\x82z"), "\uFFFDz");
  EXPECT_EQ(replaced("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate: three
  EXPECT_EQ(replaced("\xC0\xAF"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(replaced("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(replaced("\xF0\x9F\x98\xF0\x9F\x98\x80"), "\uFFFD\U0001F600");
  EXPECT_EQ(replaced("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST(Utf8, EveryCodePointSurvivesARoundTrip) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string bytes;
    utf8::append(bytes, c);
    const utf8::Step step = utf8::step(bytes);
    ASSERT_TRUE(step.valid);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.size, bytes.size());
    const char* p = bytes.data();
    ASSERT_EQ(utf8::next(p), c);
    ASSERT_EQ(p, bytes.data() + bytes.size());
    ASSERT_EQ(utf8::size_of(bytes[0]), bytes.size());
  }
}

TEST(Utf8, ValidPrefixIsAsLongAsPossible) {
  EXPECT_EQ(utf8::valid_prefix_bytes("0123456789\xE2\x82\xAC\xE2\x82"), 13u);
  EXPECT_EQ(utf8::ascii_prefix_bytes("0123456789\xE2\x82\xAC"), 10u);
  EXPECT_TRUE(utf8::is_valid(""));
}

}  // namespace
}  // namespace kvik
