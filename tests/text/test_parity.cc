// Published tokenizers give the results of the reference, recorded in the shared data.
#include <fstream>
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/paths.h"
#include "text/stream.h"
#include "text/tokenizer.h"

namespace kvik::text {
namespace {

using testing_support::shared;

std::filesystem::path folder_of(const std::string& name) {
  const std::filesystem::path model = shared() / "models" / name;
  return std::filesystem::is_directory(model) ? model : shared() / "fixtures" / "tokenizers" / name;
}

template <class F>
void for_each_case(const std::string& file, F&& f) {
  std::ifstream stream(shared() / "fixtures" / "parity" / file);
  size_t n = 0;
  for (std::string line; std::getline(stream, line); ++n) f(parse_json(line, file));
  EXPECT_GT(n, 0u) << file;
}

std::vector<TokenId> ids_of(const Json& c, const char* key) { return c.at(key).get<std::vector<TokenId>>(); }
std::string text_of(const Json& c, const char* key) { return c.at(key).get<std::string>(); }

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  DetokenizerStream stream(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) text += stream.push(id);
  return text += stream.flush();
}

class Parity : public testing::TestWithParam<const char*> {};

TEST_P(Parity, EncodesLikeTheReference) {
  KVIK_NEEDS_SHARED();
  const auto tokenizer = Tokenizer::load(folder_of(GetParam()));
  for_each_case(std::string(GetParam()) + ".jsonl", [&](const Json& c) {
    const std::string text = text_of(c, "text");
    EXPECT_EQ(tokenizer->encode(text), ids_of(c, "ids")) << text;
    EXPECT_EQ(tokenizer->encode(text, {.add_special = false}), ids_of(c, "ids_plain")) << text;
    if (!c.contains("ids_target")) return;
    EXPECT_EQ(tokenizer->encode(text, {.side = Side::kTarget}), ids_of(c, "ids_target")) << text;
  });
}

TEST_P(Parity, DecodesLikeTheReference) {
  KVIK_NEEDS_SHARED();
  const auto tokenizer = Tokenizer::load(folder_of(GetParam()));
  for_each_case(std::string(GetParam()) + ".jsonl", [&](const Json& c) {
    EXPECT_EQ(tokenizer->decode(ids_of(c, "ids_plain"), false), text_of(c, "decoded"));
    EXPECT_EQ(tokenizer->decode(ids_of(c, "ids"), true), text_of(c, "decoded_skip"));
    if (!c.contains("ids_target")) return;
    EXPECT_EQ(tokenizer->decode(ids_of(c, "ids_target"), false), text_of(c, "decoded_target"));
    EXPECT_EQ(tokenizer->decode(ids_of(c, "ids_target"), true), text_of(c, "decoded_target_skip"));
  });
}

TEST_P(Parity, StreamsTheTextOfTheReference) {
  KVIK_NEEDS_SHARED();
  const auto tokenizer = Tokenizer::load(folder_of(GetParam()));
  for_each_case(std::string(GetParam()) + ".stream.jsonl", [&](const Json& c) {
    EXPECT_EQ(streamed(tokenizer, ids_of(c, "ids"), false), text_of(c, "decoded"));
    EXPECT_EQ(streamed(tokenizer, ids_of(c, "ids"), true), text_of(c, "decoded_skip"));
  });
}

INSTANTIATE_TEST_SUITE_P(Published, Parity,
                         testing::Values("gpt2", "phi-3-mini", "tinyllama", "t5-small", "bert-base-uncased", "opus-mt-en-mg", "fable",
                                         "en-zh"),
                         [](const auto& name) {
                           std::string out;
                           for (const char c : std::string(name.param)) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return out;
                         });

}  // namespace
}  // namespace kvik::text
