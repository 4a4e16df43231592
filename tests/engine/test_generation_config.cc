#include <gmock/gmock.h>

#include "engine/generation_config.h"
#include "kvik/error.h"
#include "support/paths.h"

namespace kvik::engine {
namespace {

GenerationConfig config_of(std::string_view json) {
  const testing_support::TemporaryFolder folder;
  folder.write("generation_config.json", json);
  analysis::Signature signature;
  signature.folder = folder.path();
  return read_generation_config(signature);
}

TEST(GenerationConfig, AnEmptyFileSetsNothing) {
  const GenerationConfig config = config_of("{}");
  EXPECT_FALSE(config.sampling.temperature.has_value());
  EXPECT_FALSE(config.sampling.sequence_bias.has_value());
  EXPECT_FALSE(config.sampling.exponential_decay_length_penalty.has_value());
}

TEST(GenerationConfig, BiasesOfSequencesAreRead) {
  const GenerationConfig config = config_of(R"({"sequence_bias": [[[45, 67], -0.6], [[89], 1.2]]})");
  ASSERT_EQ(config.sampling.sequence_bias->size(), 2u);
  EXPECT_THAT(config.sampling.sequence_bias->at(0).ids, testing::ElementsAre(45, 67));
  EXPECT_DOUBLE_EQ(config.sampling.sequence_bias->at(0).bias, -0.6);
  EXPECT_THAT(config.sampling.sequence_bias->at(1).ids, testing::ElementsAre(89));
}

TEST(GenerationConfig, ThePenaltyOfLongTextsIsRead) {
  const GenerationConfig config = config_of(R"({"exponential_decay_length_penalty": [15, 1.6]})");
  ASSERT_TRUE(config.sampling.exponential_decay_length_penalty.has_value());
  EXPECT_EQ(config.sampling.exponential_decay_length_penalty->start, 15);
  EXPECT_DOUBLE_EQ(config.sampling.exponential_decay_length_penalty->factor, 1.6);
}

TEST(GenerationConfig, AValueOfTheWrongTypeIsAnErrorThatNamesFileAndKey) {
  for (const char* json : {R"({"sequence_bias": {"1": 2}})", R"({"sequence_bias": [[1, 2]]})", R"({"sequence_bias": [[[1.5], 2]]})",
                           R"({"exponential_decay_length_penalty": 3})", R"({"exponential_decay_length_penalty": [1]})",
                           R"({"exponential_decay_length_penalty": [0.5, 2]})", R"({"temperature": "hot", "do_sample": true})"}) {
    const std::string key = std::string(json).substr(2, std::string(json).find('"', 2) - 2);
    EXPECT_THAT([&] { config_of(json); },
                testing::ThrowsMessage<Error>(
                    testing::AllOf(testing::HasSubstr("generation_config.json"), testing::HasSubstr(key), testing::HasSubstr("expected"))))
        << json;
  }
}

}  // namespace
}  // namespace kvik::engine
