// Invalid tokenizer files and inputs are refused with a message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvik/error.h"
#include "support/paths.h"
#include "text/models/spm_model.h"
#include "text/tokenizer.h"

namespace kvik::text {
namespace {

using testing::HasSubstr;

const std::string kModel = R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})";

std::string error_of(const std::string& json) {
  try {
    Tokenizer::from_json(json, "tokenizer.json");
  } catch (const Error& e) { return e.what(); }
  return "(no error)";
}

TEST(BadTokenizers, TruncatedFileIsNamed) {
  EXPECT_THAT(error_of("{" + kModel), HasSubstr("tokenizer.json: not valid JSON"));
  EXPECT_THAT(error_of(""), HasSubstr("tokenizer.json"));
  EXPECT_THAT(error_of("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("'model'"));
}

TEST(BadTokenizers, MergeOfUnknownPiecesIsNamed) {
  EXPECT_THAT(error_of(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}})"), HasSubstr("'b'"));
  EXPECT_THAT(error_of(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":["a b"]}})"), HasSubstr("'ab'"));
  EXPECT_THAT(error_of(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}})"), HasSubstr("merge 0"));
}

TEST(BadTokenizers, UnknownTypesAreNamed) {
  EXPECT_THAT(error_of(R"({"model":{"type":"Magic","vocab":{}}})"), HasSubstr("'Magic'"));
  EXPECT_THAT(error_of(R"({"normalizer":{"type":"Odd"},)" + kModel + "}"), HasSubstr("'Odd'"));
  EXPECT_THAT(error_of(R"({"pre_tokenizer":{"type":"Odd"},)" + kModel + "}"), HasSubstr("'Odd'"));
  EXPECT_THAT(error_of(R"({"decoder":{"type":"Odd"},)" + kModel + "}"), HasSubstr("'Odd'"));
  EXPECT_THAT(error_of(R"({"post_processor":{"type":"Odd"},)" + kModel + "}"), HasSubstr("'Odd'"));
}

TEST(BadTokenizers, DropoutIsRefused) {
  EXPECT_THAT(error_of(R"({"model":{"type":"BPE","dropout":0.1,"vocab":{"a":0},"merges":[]}})"), HasSubstr("dropout"));
}

TEST(BadTokenizers, InvalidPatternIsNamed) {
  EXPECT_THAT(
      error_of(R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated","invert":false},)" + kModel + "}"),
      HasSubstr("'(a'"));
}

TEST(BadTokenizers, DamagedCharsmapIsRefused) {
  for (const char* blob : {"!!", "AAAA", "//////////8="}) {
    EXPECT_THAT(error_of(R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":")" + std::string(blob) + R"("},)" + kModel + "}"),
                HasSubstr("tokenizer.json: "));
  }
}

TEST(BadTokenizers, IdsOutOfRangeAreRefused) {
  EXPECT_THAT(error_of(R"({"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":-1}}})"), HasSubstr("-1"));
  EXPECT_THAT(error_of(R"({"model":{"type":"Unigram","unk_id":7,"vocab":[["a",0.0]]}})"), HasSubstr("7"));
  const auto tokenizer = Tokenizer::from_json("{" + kModel + "}", "tokenizer.json");
  const std::vector<TokenId> ids = {0, 3};
  EXPECT_THAT([&] { tokenizer->decode(ids); }, testing::ThrowsMessage<Error>(HasSubstr("token id 3 is out of range")));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{2, 1}), "ab b");
}

TEST(BadTokenizers, NestingOfSequencesIsLimited) {
  std::string deep = R"({"type":"NFC"})";
  for (int i = 0; i < 100; ++i) deep = R"({"type":"Sequence","normalizers":[)" + deep + "]}";
  EXPECT_THAT(error_of(R"({"normalizer":)" + deep + "," + kModel + "}"), HasSubstr("nests"));
}

std::string folder_error(const std::filesystem::path& folder) {
  try {
    Tokenizer::load(folder);
  } catch (const Error& e) { return e.what(); }
  return "(no error)";
}

// Such files need rules (renumbered pieces, marks at the ends of words) that only the code of their library has.
TEST(BadTokenizers, IdsThatContradictTheSentencePieceModelAreRefused) {
  const testing_support::TemporaryFolder folder;
  std::filesystem::copy(testing_support::fixtures() / "tokenizers" / "spm-unigram" / "tokenizer.model", folder.path());
  EXPECT_EQ(folder_error(folder.path()), "(no error)");
  folder.write("tokenizer_config.json", R"({"bos_token":"<s>","eos_token":"</s>","added_tokens_decoder":
    {"1":{"content":"<s>"},"2":{"content":"</s>"},"500":{"content":"<mask>"}}})");
  folder.write("config.json", R"({"bos_token_id":1})");
  EXPECT_EQ(folder_error(folder.path()), "(no error)");
  folder.write("config.json", R"({"bos_token_id":0})");
  EXPECT_THAT(folder_error(folder.path()), HasSubstr("'<s>' is 1 in the SentencePiece model and 0 in config.json"));
  folder.write("config.json", "{}");
  folder.write("tokenizer_config.json", R"({"bos_token":"<s>","added_tokens_decoder":{"0":{"content":"<s>"},"1":{"content":"<pad>"}}})");
  EXPECT_THAT(folder_error(folder.path()), HasSubstr("'<s>' is 1 in the SentencePiece model and 0 in tokenizer_config.json"));
}

TEST(BadTokenizers, VocabularyWithMergesMustBeByteLevel) {
  const testing_support::TemporaryFolder folder;
  folder.write("merges.txt", "#version: 0.2\na b\n");
  folder.write("vocab.json", R"({"a":0,"b":1,"ab":2,"\u0120":3})");
  EXPECT_EQ(folder_error(folder.path()), "(no error)");
  folder.write("vocab.json", R"({"a":0,"b":1,"ab":2})");
  EXPECT_THAT(folder_error(folder.path()), HasSubstr("no piece for the space"));
  folder.write("vocab.json", R"({"a":0,"b":1,"ab":2,"a</w>":3,"\u0120":4})");
  EXPECT_THAT(folder_error(folder.path()), HasSubstr("words that end in '</w>'"));
}

TEST(BadTokenizers, FolderWithoutATokenizerIsRefused) {
  const testing_support::TemporaryFolder folder;
  try {
    Tokenizer::load(folder.path());
    FAIL();
  } catch (const Error& e) { EXPECT_THAT(e.what(), HasSubstr("tokenizer.json")); }
  EXPECT_FALSE(Tokenizer::is_in(folder.path()));
  EXPECT_THROW(Tokenizer::load(folder.path() / "absent"), Error);
}

TEST(BadTokenizers, TruncatedSentencePieceModelIsNamed) {
  const testing_support::TemporaryFolder folder;
  folder.write("tokenizer.model", "\x0A\x20 not a model");
  try {
    Tokenizer::load(folder.path());
    FAIL();
  } catch (const Error& e) { EXPECT_THAT(e.what(), HasSubstr("tokenizer.model")); }
}

// The memory ends with the file, so that a sanitizer finds a read past its end.
TEST(BadTokenizers, SentencePieceModelThatEndsAfterAFieldNumberIsRefused) {
  const std::string bytes = {'\x1A', '\x01', '\x18'};  // a normalizer of one byte, which names a flag
  EXPECT_THROW(SpmModel{std::string_view(bytes)}, Error);
}

TEST(BadTokenizers, InvalidUtf8BecomesReplacementCharacters) {
  const auto tokenizer = Tokenizer::load(testing_support::source_root() / "models" / "fable");
  EXPECT_EQ(tokenizer->encode("a\xFF\xE2\x82"), tokenizer->encode("a\uFFFD\uFFFD"));
}

}  // namespace
}  // namespace kvik::text
