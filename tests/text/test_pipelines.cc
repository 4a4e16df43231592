// Tiny tokenizers that cover every part of the format, with the results of the reference; and the embedded models.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "kvik/error.h"
#include "support/paths.h"
#include "text/stream.h"
#include "text/tokenizer.h"

namespace kvik::text {
namespace {

using testing_support::fixtures;

std::vector<std::string> folders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures() / "tokenizers"))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string streamed_pipeline(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  DetokenizerStream stream(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) text += stream.push(id);
  return text += stream.flush();
}

class Pipelines : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder() const { return fixtures() / "tokenizers" / GetParam(); }
};

TEST_P(Pipelines, EncodeLikeTheReference) {
  const auto tokenizer = Tokenizer::load(folder());
  const Json expected = read_json_file(folder() / "expected.json");
  for (const Json& c : expected.at("encoded")) {
    const auto text = c.at("text").get<std::string>();
    EXPECT_EQ(tokenizer->encode(text), c.at("ids").get<std::vector<TokenId>>()) << text;
    EXPECT_EQ(tokenizer->encode(text, {.add_special = false}), c.at("ids_plain").get<std::vector<TokenId>>()) << text;
  }
}

TEST_P(Pipelines, DecodeAndStreamLikeTheReference) {
  const auto tokenizer = Tokenizer::load(folder());
  const Json expected = read_json_file(folder() / "expected.json");
  for (const Json& c : expected.at("decoded")) {
    const auto ids = c.at("ids").get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer->decode(ids, false), c.at("text").get<std::string>());
    EXPECT_EQ(tokenizer->decode(ids, true), c.at("text_skip").get<std::string>());
    EXPECT_EQ(streamed_pipeline(tokenizer, ids, false), c.at("text").get<std::string>());
    EXPECT_EQ(streamed_pipeline(tokenizer, ids, true), c.at("text_skip").get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, Pipelines, testing::ValuesIn(folders()), [](const auto& name) {
  std::string out;
  for (const char c : name.param) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out;
});

// Some libraries have the list of languages in their code and do not save it.
TEST(SentencePieceFolders, SourceLanguageWithoutATokenIsRefused) {
  const testing_support::TemporaryFolder folder;
  const std::filesystem::path given = fixtures() / "tokenizers" / "spm-and-vocab";
  std::filesystem::copy(given / "sentencepiece.bpe.model", folder.path());
  Json vocabulary = read_json_file(given / "vocab.json");
  vocabulary["en"] = 100;  // a part of words
  folder.write("vocab.json", vocabulary.dump());
  folder.write("tokenizer_config.json", R"({"src_lang":"en"})");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_FALSE(tokenizer->encode("the sea", {.add_special = false}).empty());
  EXPECT_THAT([&] { tokenizer->encode("the sea"); }, testing::ThrowsMessage<Error>(testing::HasSubstr("the source language is 'en'")));
  folder.write("added_tokens.json", R"({"__en__":101})");
  EXPECT_EQ(Tokenizer::load(folder.path())->encode("the sea").front(), 101);
}

// The order in which the tokens are named elsewhere may be another one.
TEST(SentencePieceFolders, TokensOfTheConfigHaveTheIdsItLists) {
  const testing_support::TemporaryFolder folder;
  std::filesystem::copy(fixtures() / "tokenizers" / "spm-unigram" / "tokenizer.model", folder.path());
  folder.write("tokenizer_config.json", R"({"additional_special_tokens":["<x0>","<x1>"],
    "added_tokens_decoder":{"500":{"content":"<x1>"},"501":{"content":"<x0>"}}})");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer->encode("<x0><x1>"), (std::vector<TokenId>{501, 500}));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{500}, false), "<x1>");
}

TEST(EmbeddedModels, StoryModelRoundTripsText) {
  const auto tokenizer = Tokenizer::load(testing_support::source_root() / "models" / "fable");
  const std::string text = "Once upon a time, there was a little fox 🦊.\n\"Don't go!\" said the owl.";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_EQ(tokenizer->special().eos, tokenizer->id_of("<|endoftext|>"));
}

TEST(EmbeddedModels, TranslationModelHasTwoSidesAndAddsTheEndToken) {
  const auto tokenizer = Tokenizer::load(testing_support::source_root() / "models" / "en-zh");
  const std::vector<TokenId> source = tokenizer->encode("I am tired.");
  const std::vector<TokenId> target = tokenizer->encode("我累了。", {.side = Side::kTarget});
  ASSERT_TRUE(tokenizer->special().eos);
  EXPECT_EQ(source.back(), *tokenizer->special().eos);
  EXPECT_EQ(target.back(), *tokenizer->special().eos);
  EXPECT_EQ(tokenizer->decode(target), "我累了。");
  EXPECT_EQ(tokenizer->encode("text").size() + 1, tokenizer->encode(">>xx<<text").size());
}

}  // namespace
}  // namespace kvik::text
