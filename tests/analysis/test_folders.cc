#include <gtest/gtest.h>

#include "analysis/signature.h"
#include "analysis/tiny_decoder.h"
#include "kvik/error.h"
#include "support/paths.h"

namespace kvik::analysis {
namespace {

namespace fs = std::filesystem;
using testing_support::fixtures;
using testing_support::TemporaryFolder;
using testing_support::TinyDecoder;

std::string model_bytes() { return TinyDecoder().bytes(); }

// The error message of analyze().
std::string refusal(const fs::path& path, Code code) {
  try {
    analyze(path);
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(code)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << path << " was not refused";
  return {};
}

bool says(const std::string& sentence, const std::string& part) { return sentence.find(part) != std::string::npos; }

std::vector<std::string> stages(const Signature& signature) {
  std::vector<std::string> names;
  for (const File& file : signature.files) names.push_back(file.path.filename().string() + " " + std::string(stage_name(file.stage)));
  return names;
}

TEST(Folders, EveryFileOfASetHasItsStageAndThePairIsPreferred) {
  const Signature s = analyze(fixtures() / "zoo" / "marian");
  EXPECT_EQ(stages(s),
            (std::vector<std::string>{"encoder_model.onnx encoder", "decoder_model.onnx decoder",
                                      "decoder_with_past_model.onnx decoder_with_past", "decoder_model_merged.onnx decoder_merged"}));
  EXPECT_EQ(s.first_step()->path.filename(), "decoder_model.onnx");
  EXPECT_EQ(s.later_step()->path.filename(), "decoder_with_past_model.onnx");
  EXPECT_TRUE(s.can_rewind());
}

TEST(Folders, AFileIsLoadedWithOnlyTheFilesThatItNeeds) {
  const fs::path folder = fixtures() / "zoo" / "marian";
  EXPECT_EQ(stages(analyze(folder / "decoder_model_merged.onnx")),
            (std::vector<std::string>{"encoder_model.onnx encoder", "decoder_model_merged.onnx decoder_merged"}));
  EXPECT_EQ(stages(analyze(folder / "decoder_with_past_model.onnx")),
            (std::vector<std::string>{"encoder_model.onnx encoder", "decoder_model.onnx decoder",
                                      "decoder_with_past_model.onnx decoder_with_past"}));
  EXPECT_EQ(stages(analyze(fixtures() / "zoo" / "small-pair" / "decoder_model.onnx")),
            (std::vector<std::string>{"decoder_model.onnx decoder", "decoder_with_past_model.onnx decoder_with_past"}));
}

TEST(Folders, AFileWithAnyNameIsAModelByItself) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("past.onnx", model_bytes());
  folder.write("other.onnx", "not a model");
  EXPECT_EQ(stages(analyze(file)), std::vector<std::string>{"past.onnx decoder"});
}

TEST(Folders, ConfigsOfTheOnnxFolderMayBeInItsParent) {
  const Signature s = analyze(fixtures() / "zoo" / "small-chunks" / "onnx" / "model.onnx");
  EXPECT_EQ(s.special.eos, std::vector<int64_t>{2});
  EXPECT_EQ(s.folder.filename(), "small-chunks");
}

TEST(Folders, TheFileWithoutASuffixIsChosenUnlessAVariantIsRequested) {
  const TemporaryFolder folder;
  folder.write("onnx/model.onnx", model_bytes());
  folder.write("onnx/model_q4f16.onnx", model_bytes());
  folder.write("onnx/model_fp16.onnx", model_bytes());
  EXPECT_EQ(analyze(folder.path()).files.at(0).path.filename(), "model.onnx");
  EXPECT_EQ(analyze(folder.path(), {.variant = "fp16"}).files.at(0).path.filename(), "model_fp16.onnx");
  EXPECT_EQ(analyze(folder.path() / "onnx" / "model_q4f16.onnx").files.at(0).path.filename(), "model_q4f16.onnx");
  EXPECT_THROW(analyze(folder.path(), {.variant = "bnb4"}), Error);
}

TEST(Folders, TheOnlyPrecisionIsChosen) {
  const TemporaryFolder folder;
  folder.write("model_quantized.onnx", model_bytes());
  EXPECT_EQ(analyze(folder.path()).files.at(0).path.filename(), "model_quantized.onnx");
}

TEST(Folders, SeveralPrecisionsWithoutADefaultAreAnError) {
  const TemporaryFolder folder;
  folder.write("model_fp16.onnx", model_bytes());
  folder.write("model_q4.onnx", model_bytes());
  const std::string sentence = refusal(folder.path(), Code::kBadArgument);
  EXPECT_TRUE(says(sentence, "fp16, q4")) << sentence;
}

TEST(Folders, TwoCompleteDecodersAreAnError) {
  const TemporaryFolder folder;
  folder.write("one.onnx", model_bytes());
  folder.write("two.onnx", model_bytes());
  const std::string sentence = refusal(folder.path(), Code::kBadArgument);
  EXPECT_TRUE(says(sentence, "one.onnx") && says(sentence, "two.onnx")) << sentence;
}

TEST(Folders, AFolderWithoutAModelIsAnError) {
  const TemporaryFolder folder;
  folder.write("config.json", "{}");
  EXPECT_TRUE(says(refusal(folder.path(), Code::kBadModel), "no .onnx file"));
  EXPECT_TRUE(says(refusal(folder.path() / "missing", Code::kIo), "no such file"));
}

TEST(Folders, AnEncoderWithoutItsDecoderIsAProblem) {
  const TemporaryFolder folder;
  fs::copy(fixtures() / "zoo" / "marian" / "encoder_model.onnx", folder.path());
  fs::copy(fixtures() / "zoo" / "marian" / "config.json", folder.path());
  const Signature s = analyze(folder.path());
  EXPECT_EQ(s.kind, Kind::kEncoder);
  ASSERT_EQ(s.problems.size(), 1u);
  EXPECT_TRUE(says(s.problems[0], "decoder file is missing")) << s.problems[0];
}

TEST(Folders, ADecoderWithoutItsEncoderIsAProblem) {
  const TemporaryFolder folder;
  fs::copy(fixtures() / "zoo" / "marian" / "decoder_model_merged.onnx", folder.path());
  const Signature s = analyze(folder.path());
  EXPECT_EQ(s.kind, Kind::kEncoderDecoder);
  ASSERT_EQ(s.problems.size(), 1u);
  EXPECT_TRUE(says(s.problems[0], "no encoder file")) << s.problems[0];
}

TEST(Folders, ABrokenConfigIsOneErrorMessage) {
  for (const char* text : {"{\"vocab_size\": 40", "[1, 2]", ""}) {
    const TemporaryFolder folder;
    folder.write("model.onnx", model_bytes());
    folder.write("config.json", text);
    EXPECT_TRUE(says(refusal(folder.path(), Code::kBadModel), "config.json")) << text;
  }
}

TEST(Folders, TheGraphTakesPrecedenceOverAContradictingConfig) {
  const TemporaryFolder folder;
  folder.write("model.onnx", model_bytes());
  folder.write("config.json", R"({"vocab_size": 41, "num_hidden_layers": 3, "num_key_value_heads": 1, "head_dim": 8})");
  const Signature s = analyze(folder.path());
  EXPECT_EQ(s.vocab, 40);
  EXPECT_EQ(s.cache.at(0).n_layers, 1);
  EXPECT_EQ(s.cache.at(0).kv_heads, 2);
  EXPECT_EQ(s.cache.at(0).head_dim, 4);
  EXPECT_EQ(s.problems.size(), 4u);
}

TEST(Folders, ConfigValuesOfTheWrongTypeAreIgnored) {
  const TemporaryFolder folder;
  folder.write("model.onnx", model_bytes());
  folder.write("config.json",
               R"({"vocab_size": "many", "eos_token_id": {"a": 1}, "text_config": [1], "architectures": [2], "num_hidden_layers": null})");
  folder.write("generation_config.json", R"({"eos_token_id": [1, "x", 2]})");
  folder.write("genai_config.json", R"({"model": {"decoder": [], "encoder": {"filename": 3}}})");
  folder.write("tokenizer_config.json",
               R"({"pad_token": {"content": 1}, "added_tokens_decoder": {"x": 1, "99999999999999999999": {"content": 1}}})");
  const Signature s = analyze(folder.path());
  EXPECT_EQ(s.special.eos, (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(s.special.pad.has_value());
}

TEST(Folders, SpecialTokensComeFromTheGenerationConfigThenTheConfigThenTheTokenizer) {
  const TemporaryFolder folder;
  folder.write("model.onnx", model_bytes());
  folder.write("config.json", R"({"eos_token_id": 1, "bos_token_id": 5})");
  folder.write("generation_config.json", R"({"eos_token_id": [3, 4]})");
  folder.write(
      "tokenizer_config.json",
      R"({"pad_token": "<pad>", "bos_token": "<s>", "added_tokens_decoder": {"7": {"content": "<pad>"}, "8": {"content": "<s>"}}})");
  const Signature s = analyze(folder.path());
  EXPECT_EQ(s.special.eos, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(s.special.bos, 5);
  EXPECT_EQ(s.special.pad, 7);
}

TEST(Folders, AMissingFileThatAModelNeedsIsNamed) {
  const TemporaryFolder folder;
  fs::copy(fixtures() / "forms" / "data-one-file" / "model.onnx", folder.path());
  EXPECT_TRUE(says(refusal(folder.path(), Code::kIo), "model.onnx.data"));
  const TemporaryFolder genai;
  genai.write("model.onnx", model_bytes());
  genai.write("genai_config.json", R"({"model": {"decoder": {"filename": "decoder.onnx"}}})");
  EXPECT_TRUE(says(refusal(genai.path(), Code::kIo), "decoder.onnx"));
  const TemporaryFolder escaping;
  escaping.write("genai_config.json", R"({"model": {"decoder": {"filename": "../secret.onnx"}}})");
  EXPECT_TRUE(says(refusal(escaping.path(), Code::kBadModel), "is outside the folder"));
}

TEST(Folders, KvikJsonResolvesAmbiguousRoles) {
  const TemporaryFolder folder;
  fs::copy(fixtures() / "forms" / "two-token-inputs" / "model.onnx", folder.path());
  folder.write("kvik.json", R"({"inputs": {"second": "token_ids", "first": "position_ids"}})");
  const File file = analyze(folder.path()).files.at(0);
  EXPECT_EQ(file.input_of(Role::kTokenIds)->name, "second");
  EXPECT_EQ(file.input_of(Role::kPositionIds)->name, "first");
}

TEST(Folders, KvikJsonMaySetRolesForOneFile) {
  const TemporaryFolder folder;
  fs::copy(fixtures() / "forms" / "two-token-inputs" / "model.onnx", folder.path());
  folder.write("kvik.json", R"({"files": {"model.onnx": {"inputs": {"first": "token_ids", "second": "token_type_ids"}}}})");
  EXPECT_EQ(analyze(folder.path()).files.at(0).input_of(Role::kTokenIds)->name, "first");
}

TEST(Folders, AnUnknownRoleIsRefused) {
  const TemporaryFolder folder;
  folder.write("model.onnx", model_bytes());
  folder.write("kvik.json", R"({"inputs": {"ids": "words"}})");
  EXPECT_TRUE(says(refusal(folder.path(), Code::kBadArgument), "words"));
}

}  // namespace
}  // namespace kvik::analysis
