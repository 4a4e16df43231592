// Masks as generations use them: shared, forked, with little memory, of plain and of other tokens.
#include <gmock/gmock.h>
#include <thread>

#include "constrain/matcher.h"
#include "constrain/support.h"

namespace kvik::constrain {
namespace {

// Single bytes, then words of every length, with characters of one to four bytes, quotes and escapes.
std::vector<std::string> vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* part : {"a", "né", "日", "😀", " the", "\"", "\\n", "\", \"", "}", ": "}) {
    std::string text;
    for (int n = 0; n < 40; ++n) tokens.push_back(text += part);
  }
  tokens.push_back("\": \"日");
  tokens.push_back("a\xE6\x97");
  return tokens;
}

std::shared_ptr<TokenConstraint> constraint_of(std::string_view schema, MemoryLimits limits = {}) {
  static const auto kTexts = std::make_shared<const TokenTexts>(vocabulary(), vocabulary().size());
  return std::make_shared<TokenConstraint>(std::make_shared<const Automaton>(compile(parse_schema(schema), "schema")),
                                           Vocabulary{kTexts, kTexts}, limits);
}

constexpr const char* kSchemas[] = {
    R"({"type": "string"})",
    R"({"type": "string", "minLength": 3, "maxLength": 7})",
    R"({"type": "string", "maxLength": 60})",
    R"({"type": "string", "pattern": "^[^a]*$"})",
    R"({"type": "object"})",
    R"({"type": "object", "properties": {"aa": {"type": "string", "maxLength": 4}, "日": {"enum": ["né", "néné", 1]}}, "required": ["日"]})",
    R"({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}}})"};

TEST(Masks, ContainExactlyTheTokensThatCanLeadToAMatch) {
  const std::vector<std::string> tokens = vocabulary();
  for (const char* schema : kSchemas) {
    TextReader reader = TextReader::of_schema(schema);
    Matcher matcher(constraint_of(schema));
    std::string text;
    for (size_t step = 0; step < 40 && !matcher.must_end(); ++step) {
      const Allowed allowed = matcher.allowed();
      EXPECT_EQ(allowed.end, reader.accepts(text));
      std::vector<TokenId> choices;
      for (TokenId id = 0; id < static_cast<TokenId>(tokens.size()); ++id) {
        ASSERT_EQ(allowed.tokens->contains(id), reader.begins_match(text + tokens[static_cast<size_t>(id)])) << schema << "\n"
                                                                                                             << text << "\n"
                                                                                                             << id;
        if (allowed.tokens->contains(id)) choices.push_back(id);
      }
      ASSERT_EQ(choices.size(), allowed.tokens->count());
      ASSERT_FALSE(choices.empty());
      const TokenId chosen = choices[(step * 31 + choices.size()) % choices.size()];
      ASSERT_TRUE(matcher.accept(chosen));
      text += tokens[static_cast<size_t>(chosen)];
    }
  }
}

// The tokens that each step allows, along one text.
std::vector<std::vector<TokenId>> masks_along(Matcher matcher, size_t n_steps) {
  std::vector<std::vector<TokenId>> masks;
  const auto n_tokens = static_cast<TokenId>(vocabulary().size());
  for (size_t step = 0; step < n_steps && !matcher.must_end(); ++step) {
    const Allowed allowed = matcher.allowed();
    std::vector<TokenId>& ids = masks.emplace_back();
    for (TokenId id = 0; id < n_tokens; ++id) {
      if (allowed.tokens->contains(id)) ids.push_back(id);
    }
    matcher.accept(ids[(step * 17) % ids.size()]);
  }
  return masks;
}

TEST(Masks, LittleMemoryGivesTheSameMasks) {
  for (const char* schema : kSchemas)
    EXPECT_EQ(masks_along(Matcher(constraint_of(schema, {.state_bytes = 1, .mask_bytes = 1})), 30),
              masks_along(Matcher(constraint_of(schema)), 30))
        << schema;
}

TEST(Masks, ForksOfAMatcherDoNotSeeEachOther) {
  Matcher matcher(constraint_of(R"({"enum": ["aaaa", "bbbb"]})"));
  ASSERT_TRUE(matcher.accept('"'));
  Matcher fork = matcher;
  ASSERT_TRUE(matcher.accept('a'));
  ASSERT_TRUE(fork.accept('b'));
  EXPECT_FALSE(matcher.accept('b'));
  EXPECT_TRUE(matcher.accept('a'));
  EXPECT_TRUE(fork.accept('b'));
}

// By trying every byte.
TEST(Masks, ForcedTextIsTheCommonContinuationOfAllMatches) {
  const std::shared_ptr<TokenConstraint> constraint =
      constraint_of(R"({"type": "object", "properties": {"aaaa": {"const": "né"}}, "required": ["aaaa"], "additionalProperties": false})");
  Matcher matcher(constraint);
  size_t n_forced = 0;
  const std::string text = "{ \"aaaa\": \"né\"}";
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string forced = matcher.forced_text(64);
    EXPECT_EQ(text.compare(at, forced.size(), forced), 0) << at << ": " << forced;
    std::vector<TokenId> live;
    for (TokenId byte = 0; byte < 256; ++byte) {
      Matcher next = matcher;
      if (next.accept(byte)) live.push_back(byte);
    }
    EXPECT_EQ(!forced.empty(), live.size() == 1) << at;
    n_forced += forced.size() > 1 ? 1 : 0;
    ASSERT_TRUE(matcher.accept(static_cast<uint8_t>(text[at])));
  }
  EXPECT_EQ(matcher.forced_text(64), "");
  EXPECT_GT(n_forced, 6u);
  EXPECT_EQ(Matcher(constraint).forced_text(64), "{");
}

TEST(Masks, ThreadsShareAConstraint) {
  for (const char* schema : kSchemas) {
    const std::vector<std::vector<TokenId>> alone = masks_along(Matcher(constraint_of(schema)), 20);
    const auto shared = constraint_of(schema, {.state_bytes = size_t{200} << 10, .mask_bytes = 2000});
    std::vector<std::vector<std::vector<TokenId>>> found(4);
    std::vector<std::thread> threads;
    for (auto& masks : found) threads.emplace_back([&] { masks = masks_along(Matcher(shared), 20); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(found, testing::Each(alone)) << schema;
  }
}

TEST(Masks, ApplyKeepsOnlyLogitsOfAllowedAndKeptTokens) {
  const float kInfinity = std::numeric_limits<float>::infinity();
  for (const bool dense : {false, true}) {
    std::vector<uint64_t> words(4, 0);
    std::vector<float> expected(250, -kInfinity), logits(250);
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = static_cast<float>(i);
      const bool is_in = dense ? i % 3 != 0 : i % 100 == 7;
      if (is_in) words[i / 64] |= uint64_t{1} << (i % 64);
      if (is_in || i == 33) expected[i] = static_cast<float>(i);
    }
    const TokenId kept[] = {33, 5000};
    Mask(words).apply(logits, kept);
    EXPECT_EQ(logits, expected);
  }
}

}  // namespace
}  // namespace kvik::constrain
