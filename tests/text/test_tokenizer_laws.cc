// Properties of every tokenizer.
#include <atomic>
#include <gtest/gtest.h>
#include <random>
#include <thread>

#include "base/utf8.h"
#include "support/allocations.h"
#include "support/paths.h"
#include "text/stream.h"
#include "text/tokenizer.h"
#include "text/unicode/unicode.h"

namespace kvik::text {
namespace {

using testing_support::fixtures;
using testing_support::source_root;

std::shared_ptr<const Tokenizer> tiny(const char* name) { return Tokenizer::load(fixtures() / "tokenizers" / name); }
std::shared_ptr<const Tokenizer> fable() { return Tokenizer::load(source_root() / "models" / "fable"); }

std::string repeated(std::string_view part, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}

// Quadratic work on a megabyte would take hours.
TEST(TokenizerLaws, LongRepetitiveTextsAreEncodedInLinearTime) {
  for (const char* name : {"byte-level", "byte-level-split", "byte-fallback", "unigram", "unigram-bytes", "wordpiece", "wordpiece-plain",
                           "scripts", "split-Contiguous", "spm-unigram", "spm-bpe", "spm-word", "spm-char", "wordlevel"}) {
    const auto tokenizer = tiny(name);
    for (const std::string_view part : {"a", " ", "👍🏽", "e\u0301\u0323", "中", "the sea ", "<s>", "\n", "'", "0"}) {
      const std::string text = repeated(part, 1'000'000);
      EXPECT_LE(tokenizer->encode(text, {.add_special = false}).size(), 4 * text.size()) << name << " on " << part;
    }
  }
}

TEST(TokenizerLaws, StreamAllocatesNothingPerToken) {
  for (const auto& tokenizer : {fable(), tiny("byte-fallback"), tiny("unigram"), tiny("wordpiece"), tiny("spm-unigram"),
                                Tokenizer::load(source_root() / "models" / "en-zh")}) {
    const std::vector<TokenId> ids = tokenizer->encode("The little fox said: the sea sells shells, and she said it's the sea.");
    DetokenizerStream stream(tokenizer);
    for (int round = 0; round < 20; ++round) {
      for (const TokenId id : ids) (void)stream.push(id);
    }
    const int64_t before = testing_support::n_allocations();
    size_t n_bytes = 0;
    for (const TokenId id : ids) n_bytes += stream.push(id).size();
    EXPECT_EQ(testing_support::n_allocations(), before);
    EXPECT_GT(n_bytes, 0u);
  }
}

TEST(TokenizerLaws, EveryThreadGetsTheSameIds) {
  const auto tokenizer = fable();
  const std::string text = repeated("Once upon a time the fox ran 12 miles, didn't it? ", 20'000);
  const std::vector<TokenId> expected = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::atomic<int> n_equal = 0;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { n_equal += tokenizer->encode(text) == expected ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_equal, 4);
}

TEST(TokenizerLaws, WordCacheDoesNotChangeResults) {
  const auto used = tiny("byte-fallback");
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t i = 0, n = random() % 12; i < n; ++i) {
      constexpr const char* kParts[] = {"the", " ", "sea", "shells", "é", "中", "x", "  ", "don't", "Σ"};
      text += kParts[random() % 10];
    }
    EXPECT_EQ(used->encode(text), tiny("byte-fallback")->encode(text)) << text;
  }
}

TEST(TokenizerLaws, StreamOutputsOnlyCompleteCharacters) {
  const auto tokenizer = fable();
  const std::vector<TokenId> ids = tokenizer->encode("中文 👨‍👩‍👧 é");
  DetokenizerStream stream(tokenizer);
  for (const TokenId id : ids) EXPECT_TRUE(utf8::is_valid(stream.push(id)));
  EXPECT_EQ(stream.flush(), "");
  const std::vector<TokenId> cut(ids.begin(), ids.begin() + 1);  // the first byte of a character
  if (tokenizer->decode(cut) != "\uFFFD") return;
  EXPECT_EQ(stream.push(cut[0]), "");
  EXPECT_EQ(stream.flush(), "\uFFFD");
}

TEST(TokenizerLaws, FlushedStreamCanBeReused) {
  const auto tokenizer = tiny("unigram");
  const std::vector<TokenId> ids = tokenizer->encode("the sea", {.add_special = false});
  DetokenizerStream stream(tokenizer);
  std::string first, second;
  for (const TokenId id : ids) first += stream.push(id);
  first += stream.flush();
  for (const TokenId id : ids) second += stream.push(id);
  second += stream.flush();
  EXPECT_EQ(first, second);
}

TEST(TokenizerLaws, LanguageReplacesTheDefault) {
  const testing_support::TemporaryFolder folder;
  folder.write(
      "tokenizer.json",
      R"({"added_tokens":[{"id":2,"content":"eng_Latn","special":true,"normalized":false},{"id":3,"content":"fra_Latn","special":true,"normalized":false},
                   {"id":4,"content":"</s>","special":true,"normalized":false}],
                   "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"eng_Latn","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
                     {"SpecialToken":{"id":"</s>","type_id":0}}],"pair":[],"special_tokens":{"eng_Latn":{"id":"eng_Latn","ids":[2],"tokens":["eng_Latn"]},
                     "</s>":{"id":"</s>","ids":[4],"tokens":["</s>"]}}},
                   "model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0,"a":1}}})");
  folder.write("tokenizer_config.json",
               R"({"src_lang":"eng_Latn","tgt_lang":"fra_Latn","eos_token":"</s>","model_max_length":1000000000000000019884624838656})");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer->encode("a"), std::vector<TokenId>({2, 1, 4}));
  EXPECT_EQ(tokenizer->encode("a", {.language = "fra_Latn"}), std::vector<TokenId>({3, 1, 4}));
  EXPECT_EQ(tokenizer->language_id("fra_Latn"), 3);
  EXPECT_FALSE(tokenizer->language_id("deu_Latn"));
  EXPECT_EQ(tokenizer->special().eos, 4);
}

TEST(TokenizerLaws, OnnxFolderUsesTheFilesOfItsParent) {
  const testing_support::TemporaryFolder folder;
  folder.write("tokenizer.json", R"({"model":{"type":"WordLevel","unk_token":"u","vocab":{"u":0,"a":1}}})");
  folder.write("onnx/model.onnx", "");
  EXPECT_TRUE(Tokenizer::is_in(folder.path() / "onnx"));
  EXPECT_EQ(Tokenizer::load(folder.path() / "onnx" / "")->encode("a"), std::vector<TokenId>({1}));
}

TEST(Unicode, NormalizationIsLinearInLongRunsOfMarks) {
  std::string marks = "a";
  for (int i = 0; i < 200'000; ++i) marks += i % 2 == 0 ? "\u0301" : "\u0316";
  std::string composed;
  unicode::append_normalized(composed, marks, unicode::Form::kNfc);
  EXPECT_EQ(composed.substr(0, 4), "\u00E1\u0316");
  EXPECT_EQ(composed.size(), marks.size() - 1);
}

TEST(Unicode, NormalizationFormsAgreeOnKnownCases) {
  const auto form = [](std::string_view text, unicode::Form f) {
    std::string out;
    unicode::append_normalized(out, text, f);
    return out;
  };
  EXPECT_EQ(form("e\u0301", unicode::Form::kNfc), "é");
  EXPECT_EQ(form("é", unicode::Form::kNfd), "e\u0301");
  EXPECT_EQ(form("\u1112\u1161\u11AB", unicode::Form::kNfc), "한");
  EXPECT_EQ(form("한", unicode::Form::kNfd), "\u1112\u1161\u11AB");
  EXPECT_EQ(form("ﬁ①", unicode::Form::kNfkc), "fi1");
  EXPECT_EQ(form("\u0344", unicode::Form::kNfc), "\u0308\u0301");
  EXPECT_EQ(form("ab\u0323\u0307c", unicode::Form::kNfc), "aḅ\u0307c");
}

}  // namespace
}  // namespace kvik::text
