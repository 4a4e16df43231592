#include <gmock/gmock.h>

#include "kvik/error.h"
#include "support/paths.h"
#include "text/token_bytes.h"

namespace kvik::text {
namespace {

std::shared_ptr<const Tokenizer> fixture(const std::string& name) {
  return Tokenizer::load(testing_support::fixtures() / "tokenizers" / name);
}

std::string joined(const TokenBytes& bytes, const std::vector<TokenId>& ids) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) text += (i == 0 ? bytes.first : bytes.later)[static_cast<size_t>(ids[i])];
  return text;
}

// Characters that the vocabularies lack are written as bytes, which only together are a character.
TEST(TokenBytes, JoinedAreTheDecodedText) {
  for (const char* name : {"byte-level", "byte-fallback", "spm-bpe", "vocab-and-merges", "wordpiece", "unigram"}) {
    const auto tokenizer = fixture(name);
    const TokenBytes bytes = token_bytes(*tokenizer);
    for (const char* text : {"Hello world, hello", " the  end", "naïve 日本 😀 {\"a\": [1]}", "x"}) {
      const std::vector<TokenId> ids = tokenizer->encode(text, {.add_special = false});
      EXPECT_EQ(joined(bytes, ids), tokenizer->decode(ids)) << name << ": " << text;
    }
  }
}

TEST(TokenBytes, ATokenMayBePartOfACharacter) {
  const auto tokenizer = fixture("byte-fallback");
  const TokenBytes bytes = token_bytes(*tokenizer);
  const std::optional<TokenId> id = tokenizer->id_of("<0xE6>");
  ASSERT_TRUE(id);
  EXPECT_EQ(bytes.later[static_cast<size_t>(*id)], "\xE6");
}

TEST(TokenBytes, TokenizersWhoseTokensDependOnThoseAroundThemAreRefused) { EXPECT_THROW(token_bytes(*fixture("marked-words")), Error); }

}  // namespace
}  // namespace kvik::text
