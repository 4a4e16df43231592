#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample/options.h"

namespace kvik::sample {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SamplingOptions, TheDefaultsAreGreedyAndInRange) {
  EXPECT_TRUE(SamplingOptions().greedy());
  EXPECT_THAT(SamplingOptions().validate(), IsEmpty());
  EXPECT_THAT(SamplingOptions().validate(1), IsEmpty());
}

TEST(SamplingOptions, EachValueOutOfRangeGetsASentenceThatNamesIt) {
  const std::vector<std::pair<std::string, std::function<void(SamplingOptions&, double)>>> fields = {
      {"temperature", [](auto& o, double x) { o.temperature = x; }},
      {"top_p", [](auto& o, double x) { o.top_p = x; }},
      {"min_p", [](auto& o, double x) { o.min_p = x; }},
      {"typical_p", [](auto& o, double x) { o.typical_p = x; }},
      {"epsilon_cutoff", [](auto& o, double x) { o.epsilon_cutoff = x; }},
      {"eta_cutoff", [](auto& o, double x) { o.eta_cutoff = x; }},
      {"repetition_penalty", [](auto& o, double x) { o.repetition_penalty = x; }},
      {"encoder_repetition_penalty", [](auto& o, double x) { o.encoder_repetition_penalty = x; }},
      {"presence_penalty", [](auto& o, double x) { o.presence_penalty = x; }},
      {"frequency_penalty", [](auto& o, double x) { o.frequency_penalty = x; }},
      {"factor of exponential_decay_length_penalty",
       [](auto& o, double x) {
         o.exponential_decay_length_penalty = {1, x};
       }},
      {"logit_bias",
       [](auto& o, double x) {
         o.logit_bias = {{1, x}};
       }},
      {"sequence_bias",
       [](auto& o, double x) {
         o.sequence_bias = {{{1, 2}, x}};
       }},
  };
  for (const auto& [name, set] : fields) {
    for (const double wrong : {std::nan(""), HUGE_VAL}) {
      SamplingOptions options;
      set(options, wrong);
      EXPECT_THAT(options.validate(), ElementsAre(testing::HasSubstr(name))) << wrong;
    }
  }
}

TEST(SamplingOptions, TheEndsOfARangeAreInItOrNotAsTheyShould) {
  EXPECT_THAT(SamplingOptions({.top_p = 0.0}).validate(), IsEmpty());
  EXPECT_THAT(SamplingOptions({.top_p = 1.01}).validate(), ElementsAre("top_p is 1.01; it must be a number from 0 to 1"));
  EXPECT_THAT(SamplingOptions({.min_p = -0.1}).validate(), ElementsAre(testing::HasSubstr("min_p is -0.1")));
  EXPECT_THAT(SamplingOptions({.temperature = -1}).validate(), ElementsAre(testing::HasSubstr("0 (greedy) or a positive number")));
  EXPECT_THAT(SamplingOptions({.top_k = -1}).validate(), ElementsAre(testing::HasSubstr("top_k is -1")));
  EXPECT_THAT(SamplingOptions({.repetition_penalty = 0}).validate(), ElementsAre(testing::HasSubstr("repetition_penalty is 0")));
  EXPECT_THAT(SamplingOptions({.presence_penalty = -2}).validate(), IsEmpty());
  EXPECT_THAT(SamplingOptions({.logit_bias = {{1, -HUGE_VAL}}}).validate(), IsEmpty());
  EXPECT_THAT(SamplingOptions({.bad_words_ids = {{}}}).validate(), ElementsAre(testing::HasSubstr("bad_words_ids is empty")));
  EXPECT_THAT(SamplingOptions({.top_k = -1, .top_p = 2, .no_repeat_ngram_size = -3}).validate(), testing::SizeIs(3));
}

TEST(SamplingOptions, ForcedAndBiasedIdsMustBeInTheVocabularyButBannedOnesNeedNot) {
  EXPECT_THAT(SamplingOptions({.logit_bias = {{10, 1.0}}}).validate(10), ElementsAre("logit_bias has the id 10; the vocabulary ends at 9"));
  EXPECT_THAT(SamplingOptions({.forced_bos_token_id = 12}).validate(10), testing::SizeIs(1));
  EXPECT_THAT(SamplingOptions({.bad_words_ids = {{12}}, .suppress_tokens = {-1, 99}}).validate(10), IsEmpty());
}

}  // namespace
}  // namespace kvik::sample
