// Sentences quote names out of files that may come from anywhere; they may not steer the terminal that shows them.
#include <gmock/gmock.h>

#include "base/escape.h"
#include "base/utf8.h"
#include "kvik/error.h"
#include "kvik/kvik_c.h"

namespace kvik {
namespace {

TEST(Escape, DoesNotChangeOrdinaryTextInAnyLanguage) {
  for (const std::string text : {"plain", "caf\u00e9", "\u4f60\u597d", "\U0001F600", "back\\slash", "\u00a0", "a\u200d b"})
    EXPECT_EQ(escape_controls(text), text);
}

TEST(Escape, WritesControlCharactersAsEscapes) {
  EXPECT_EQ(escape_controls("a\nb\r\t\x1b[0m\x7f"), "a\\nb\\r\\t\\x1b[0m\\x7f");
  EXPECT_EQ(escape_controls(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(escape_controls("\u0085\u009b"), "\\u0085\\u009b");
  EXPECT_EQ(escape_controls("\u202e\u2066\u200f\u2028\ufeff\U000e0041"), "\\u202e\\u2066\\u200f\\u2028\\ufeff\\U000e0041");
}

TEST(Escape, WritesBytesThatAreNotUtf8AsEscapes) {
  EXPECT_EQ(escape_controls("\x9b[0m\xc3(\xff"), "\\x9b[0m\\xc3(\\xff");
  EXPECT_EQ(escape_controls("\xe2\x80"), "\\xe2\\x80");
}

TEST(Escape, TwiceIsTheSameAsOnce) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  const std::string once = escape_controls(bytes);
  EXPECT_EQ(escape_controls(once), once);
  EXPECT_TRUE(utf8::is_valid(once));
}

TEST(Escape, MessagesOfErrorsAreEscaped) { EXPECT_STREQ(Error(Code::kIo, "no\x1b[2Jsuch\nfile").what(), "no\\x1b[2Jsuch\\nfile"); }

TEST(Escape, MessagesOfTheCApiAreEscaped) {
  kvik_model* model = nullptr;
  EXPECT_NE(kvik_model_load("no\x1b[2Jsuch\nmodel", nullptr, &model), KVIK_STATUS_OK);
  EXPECT_THAT(kvik_last_error(), testing::HasSubstr("no\\x1b[2Jsuch\\nmodel"));
}

}  // namespace
}  // namespace kvik
