// Tokenizer files whose steps expand a text without end. Each must be refused before it takes all memory.
#include <fmt/format.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvik/error.h"
#include "text/models/spm_model.h"
#include "text/tokenizer.h"
#include "text/unicode/growth_limit.h"

namespace kvik::text {
namespace {

using testing::HasSubstr;

constexpr const char* kModel = R"("model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0,"aaaaaaaaaaaaaaaa":1}})";

// The message of the Error that `f` throws.
std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) { return e.what(); }
  return "(no error)";
}

std::string repeated(const std::string& step, int n) {
  std::string steps = step;
  for (int i = 1; i < n; ++i) steps += "," + step;
  return steps;
}

std::shared_ptr<const Tokenizer> with(const std::string& part) {
  return Tokenizer::from_json(fmt::format("{{{},{}}}", part, kModel), "tokenizer.json");
}

std::shared_ptr<const Tokenizer> with_normalizers(const std::string& steps) {
  return with(R"("normalizer":{"type":"Sequence","normalizers":[)" + steps + "]}");
}

std::shared_ptr<const Tokenizer> with_pre_tokenizers(const std::string& steps) {
  return with(R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[)" + steps + "]}");
}

std::shared_ptr<const Tokenizer> with_decoders(const std::string& steps) {
  return with(R"("decoder":{"type":"Sequence","decoders":[)" + steps + "]}");
}

void expect_encoding_refused(const Tokenizer& tokenizer, const std::string& text) {
  EXPECT_THAT(error_of([&] { tokenizer.encode(text); }), HasSubstr("expands a text"));
}

void expect_decoding_refused(const Tokenizer& tokenizer) {
  EXPECT_THAT(error_of([&] { tokenizer.decode(std::vector<TokenId>{1, 0}); }), HasSubstr("expands a text"));
}

TEST(HostileTokenizers, NormalizersThatDoubleTheTextAreRefused) {
  for (const char* step : {
           R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})",
           R"({"type":"Replace","pattern":{"String":""},"content":"b"})",
           R"({"type":"Replace","pattern":{"Regex":"a"},"content":"aa"})",
           R"({"type":"ByteLevel"})",
       }) {
    SCOPED_TRACE(step);
    const auto tokenizer = with_normalizers(repeated(step, 40));
    expect_encoding_refused(*tokenizer, "a\u00E9");
  }
}

TEST(HostileTokenizers, LongReplacementIsRefusedBeforeItIsWritten) {
  const std::string content(1 << 20, 'b');
  for (const char* kind : {"String", "Regex"}) {
    const auto tokenizer = with_normalizers(fmt::format(R"({{"type":"Replace","pattern":{{"{}":"a"}},"content":"{}"}})", kind, content));
    expect_encoding_refused(*tokenizer, std::string(1 << 20, 'a'));  // 1 TB
  }
}

TEST(HostileTokenizers, LimitCountsAllPartsOfTheTextTogether) {
  const auto tokenizer = with(R"("added_tokens":[{"id":2,"content":"|","normalized":false}],"normalizer":{"type":"Prepend","prepend":")" +
                              std::string(1 << 20, 'b') + R"("})");
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "a|";
  expect_encoding_refused(*tokenizer, text);
}

TEST(HostileTokenizers, AddedTokensThatNormalizeToLongTextAreRefusedAtLoad) {
  const std::string steps = repeated(R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})", 40);
  EXPECT_THAT(error_of([&] {
                with(R"("added_tokens":[{"id":2,"content":"xa","normalized":true}],"normalizer":{"type":"Sequence","normalizers":[)" +
                     steps + "]}");
              }),
              HasSubstr("expands a text"));
}

TEST(HostileTokenizers, PreTokenizersThatDoubleTheTextAreRefused) {
  const std::string byte_level = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  expect_encoding_refused(*with_pre_tokenizers(repeated(byte_level, 40)), "\u00E9");
  // No piece ever gets long here: their number doubles.
  const auto metaspace = [](const char* mark) {
    return fmt::format(R"({{"type":"Metaspace","replacement":"{}","prepend_scheme":"always","split":false}})", mark);
  };
  const std::string split = R"({"type":"Split","pattern":{"Regex":"."},"behavior":"Isolated","invert":false})";
  expect_encoding_refused(*with_pre_tokenizers(repeated(metaspace("x") + "," + split + "," + metaspace("y") + "," + split, 20)), "a");
}

TEST(HostileTokenizers, DecodersThatDoubleTheTextAreRefused) {
  for (const char* step : {
           R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})",
           R"({"type":"Replace","pattern":{"String":""},"content":"b"})",
           R"({"type":"Replace","pattern":{"Regex":"a"},"content":"aa"})",
           R"({"type":"CTC","pad_token":"x","word_delimiter_token":"","cleanup":true})",
       }) {
    SCOPED_TRACE(step);
    expect_decoding_refused(*with_decoders(repeated(step, 40)));
    expect_decoding_refused(*with_decoders(R"({"type":"Fuse"},)" + repeated(step, 40)));
  }
  expect_decoding_refused(*with_decoders(repeated(R"({"type":"BPEDecoder","suffix":""})", 40)));
}

TEST(HostileTokenizers, TemplateThatRepeatsTheTextIsRefused) {
  const std::string places = repeated(R"({"Sequence":{"id":"A","type_id":0}})", 20000);
  const auto tokenizer = with(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"."},"behavior":"Isolated","invert":false},)"
                              R"("post_processor":{"type":"TemplateProcessing","single":[)" +
                              places + R"(],"pair":[],"special_tokens":{}})");
  expect_encoding_refused(*tokenizer, std::string(10000, 'a'));
}

// A character map that replaces "a" with `replacement`.
std::string charsmap_of(const std::string& replacement) {
  std::vector<uint32_t> units(512);
  units[0] = 256 << 10;
  units[256 ^ 'a'] = 3 << 10 | 1 << 8 | 'a';
  const auto n_bytes = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
  std::string blob(reinterpret_cast<const char*>(&n_bytes), sizeof n_bytes);
  blob.append(reinterpret_cast<const char*>(units.data()), n_bytes);
  return blob + replacement + '\0';
}

std::string base64_of(const std::string& bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = i; j < i + 3; ++j) bits = bits << 8 | (j < bytes.size() ? static_cast<uint8_t>(bytes[j]) : 0);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[bits >> shift & 63];
  }
  return text;
}

TEST(HostileTokenizers, CharsmapWithALongReplacementIsRefused) {
  const std::string charsmap = charsmap_of(std::string(1 << 20, 'b'));
  const auto tokenizer = with(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":")" + base64_of(charsmap) + R"("})");
  expect_encoding_refused(*tokenizer, std::string(1 << 20, 'a'));
}

// A protobuf field whose value is bytes.
std::string field(char number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  size_t size = bytes.size();
  for (; size >= 128; size >>= 7) out += static_cast<char>(size | 128);
  return out + static_cast<char>(size) + bytes;
}

TEST(HostileTokenizers, SentencePieceModelWithALongReplacementIsRefused) {
  const SpmModel model(field(1, field(1, "<unk>") + "\x18\x02") + field(3, field(2, charsmap_of(std::string(1 << 20, 'b')))));
  Scratch scratch;
  std::vector<TokenId> ids;
  EXPECT_THAT(error_of([&] { model.encode(std::string(1 << 20, 'a'), scratch, ids); }), HasSubstr("expands a text"));
}

TEST(HostileTokenizers, LargestExpansionOfUnicodeIsAllowed) {
  const auto tokenizer = with(R"("normalizer":{"type":"NFKC"})");
  std::string text;
  while (11 * text.size() < 2 * GrowthLimit::kAlwaysAllowed) text += "\uFDFA";  // 3 bytes that become 33
  EXPECT_EQ(tokenizer->encode(text), std::vector<TokenId>{0});
}

}  // namespace
}  // namespace kvik::text
