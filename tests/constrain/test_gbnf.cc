#include <gmock/gmock.h>

#include "constrain/support.h"

namespace kvik::constrain {
namespace {

std::string gbnf_error(const std::string& grammar) {
  return error_in([&] { TextReader::of_gbnf(grammar); });
}

TEST(Gbnf, ReadsRulesOverSeveralLinesWithComments) {
  TextReader reader = TextReader::of_gbnf(R"(# a list
root ::= "[" ws (
  (item ("," ws item)* )?   # groups go on over lines
  ) ws "]"
item ::= [a-z]+ | root
ws ::= [ \t\n]{0,2}
)");
  for (const char* good : {"[]", "[a]", "[ab,  c]", "[[],[a]]", "[\n]"}) EXPECT_TRUE(reader.accepts(good)) << good;
  for (const char* bad : {"", "[", "[a,]", "[A]", "[a]]", "[     ]"}) EXPECT_FALSE(reader.accepts(bad)) << bad;
  EXPECT_TRUE(reader.must_end("[a]"));
  EXPECT_FALSE(reader.must_end("[a"));
}

TEST(Gbnf, ReadsEscapesClassesAndRepetition) {
  TextReader reader = TextReader::of_gbnf(R"(root ::= "\"\\\n\x41\u00e9" [^\]a-c\-] . [\U0001F600-\U0001F602]{2,3} "x"{2,} "yz"?)");
  EXPECT_TRUE(reader.accepts("\"\\\nAé]😀😂xx") == false);
  EXPECT_TRUE(reader.accepts("\"\\\nAéd日😀😂xx"));
  EXPECT_TRUE(reader.accepts("\"\\\nAéd\n😀😂😁xxxyz"));
  EXPECT_FALSE(reader.accepts("\"\\\nAé-日😀😂xx"));
  EXPECT_FALSE(reader.accepts("\"\\\nAéd日😀😃xx"));
  EXPECT_TRUE(reader.begins_match("\"\\\nAéd\xE6\x97"));  // half a character
  EXPECT_FALSE(reader.begins_match("\"\\\nAéd\xFF"));
}

TEST(Gbnf, LiteralsAndClassesMayContainLineBreaks) {
  TextReader reader = TextReader::of_gbnf("root ::= \"a\nb\" [\n ]\n");
  EXPECT_TRUE(reader.accepts("a\nb\n"));
  EXPECT_FALSE(reader.accepts("a b "));
}

TEST(Gbnf, EmptyLoopsAndRightRecursionAreSafe) {
  TextReader loops = TextReader::of_gbnf("root ::= (\"\" | \"a\"?)* \"b\"\n");
  EXPECT_TRUE(loops.accepts("aaab"));
  TextReader list = TextReader::of_gbnf("root ::= \"a\" root | \"b\"\n");
  EXPECT_TRUE(list.accepts(std::string(5000, 'a') + "b"));
  EXPECT_LT(list.states().bytes(), size_t{1} << 20);  // a call at the end of a rule keeps nothing
}

TEST(Gbnf, DeepRecursionKeepsOneStackNodePerLevel) {
  TextReader reader = TextReader::of_gbnf("root ::= \"(\" root? \")\"\n");
  EXPECT_TRUE(reader.accepts(std::string(3000, '(') + std::string(3000, ')')));
  EXPECT_FALSE(reader.accepts(std::string(3000, '(') + std::string(2999, ')')));
}

TEST(Gbnf, ErrorsNameThePosition) {
  EXPECT_THAT(gbnf_error("a ::= \"x\""), testing::HasSubstr("no rule 'root'"));
  EXPECT_THAT(gbnf_error("root ::= \"x\" b\nc ::= \"y\""), testing::HasSubstr("character 14: rule 'b' is not defined"));
  EXPECT_THAT(gbnf_error("root ::= \"x\"\nroot ::= \"y\""), testing::HasSubstr("line 2, column 1: rule 'root' is defined twice"));
  EXPECT_THAT(gbnf_error("root ::= root \"x\" | \"y\""), testing::HasSubstr("'root' is left-recursive"));
  EXPECT_THAT(gbnf_error("root ::= a \"x\"\na ::= \"\"? b\nb ::= a \"z\" | \"y\""), testing::HasSubstr("left-recursive"));
  EXPECT_THAT(gbnf_error("root ::= \"x\" root"), testing::HasSubstr("no text can match the grammar"));
  EXPECT_THAT(gbnf_error("root ::= \"x"), testing::HasSubstr("ends inside of a literal"));
  EXPECT_THAT(gbnf_error("root ::= [z-a]"), testing::HasSubstr("ends before it begins"));
  EXPECT_THAT(gbnf_error("root ::= \"\\q\""), testing::HasSubstr("unknown escape '\\q'"));
  EXPECT_THAT(gbnf_error("root ::= (\"a\""), testing::HasSubstr("')' was expected"));
  EXPECT_THAT(gbnf_error("root = \"a\""), testing::HasSubstr("'::=' was expected"));
  EXPECT_THAT(gbnf_error("root ::= \"\\uD800\""), testing::HasSubstr("U+D800 is not a character"));
}

TEST(Gbnf, HostileGrammarsEndWithOneError) {
  EXPECT_THAT(gbnf_error("root ::= \"a\"{1000000}"), testing::HasSubstr("is not supported"));
  EXPECT_THAT(
      gbnf_error(
          "root ::= a{90000}\na ::= b{90000}\nb ::= (\"x\" \"y\"){90000} (\"zzzzzz\"){90000} c\nc ::= (\"x\"){90000} (\"y\"){90000}{9}"),
      testing::HasSubstr("states"));
  EXPECT_THAT(gbnf_error("root ::= " + std::string(100000, '(')), testing::HasSubstr("nested"));
  EXPECT_THAT(gbnf_error(std::string(2 << 20, ' ')), testing::HasSubstr("at most"));
  EXPECT_THAT(gbnf_error("root ::= (\"a\"? ){20000} (\"a\"?){20000}"), testing::HasSubstr("ambiguous"));
}

TEST(Gbnf, TooManyParsesOfATextAreAnError) {
  TextReader reader =
      TextReader::of_gbnf("root ::= s s s s s s s s s s s s \"!\"\ns ::= \"a\" s \"b\" | \"a\" s | \"a\" \"a\"? s | \"a\"\n");
  EXPECT_THROW(reader.accepts(std::string(3000, 'a')), Error);
}

}  // namespace
}  // namespace kvik::constrain
