#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample/options.h"

namespace kvik::sample {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kVocab = 10;

TEST(Sampling, DefaultsAreGreedyAndInRange) {
  EXPECT_TRUE(is_greedy(Sampling()));
  EXPECT_TRUE(is_greedy(with_defaults({})));
  EXPECT_THAT(problem_of(with_defaults({}), 1), IsEmpty());
}

TEST(Sampling, EveryNumberOutsideItsRangeIsReportedByName) {
  int n_numbers = 0;
  for (const SamplingField& field : sampling_fields()) {
    std::visit(
        [&]<class T>(std::optional<T> Sampling::*member) {
          if constexpr (std::is_same_v<T, double> || std::is_same_v<T, int>) {
            ++n_numbers;
            ASSERT_LT(field.lowest, field.highest) << field.name;
            for (const double end : {field.lowest, field.highest, field.no_effect}) {
              Sampling inside;
              inside.*member = static_cast<T>(end);
              if (field.name == "forced_bos_token_id" && end > 0) continue;  // an id of a larger vocabulary
              EXPECT_THAT(problem_of(inside, kVocab), IsEmpty()) << field.name << " = " << end;
            }
            const auto expect_problem = [&](T wrong) {
              Sampling outside;
              outside.*member = wrong;
              EXPECT_THAT(problem_of(outside, kVocab), testing::AllOf(HasSubstr(field.name), HasSubstr(field.range))) << wrong;
            };
            if constexpr (std::is_same_v<T, double>) {
              expect_problem(std::nan(""));
              expect_problem(HUGE_VAL);
            } else {
              expect_problem(static_cast<int>(field.lowest) - 1);
            }
          }
        },
        field.member);
  }
  EXPECT_EQ(n_numbers, 16);
}

TEST(Sampling, BiasesAndDecayAreCheckedToo) {
  EXPECT_THAT(problem_of({.logit_bias = {{{1, std::nan("")}}}}, kVocab), HasSubstr("logit_bias"));
  EXPECT_THAT(problem_of({.logit_bias = {{{1, -HUGE_VAL}}}}, kVocab), IsEmpty());
  EXPECT_THAT(problem_of({.sequence_bias = std::vector<SequenceBias>{{{1, 2}, HUGE_VAL}}}, kVocab), HasSubstr("sequence_bias"));
  EXPECT_THAT(problem_of({.exponential_decay_length_penalty = DecayLengthPenalty{1, -1.0}}, kVocab),
              HasSubstr("factor of exponential_decay_length_penalty"));
  EXPECT_THAT(problem_of({.bad_words_ids = std::vector<std::vector<TokenId>>{{}}}, kVocab), HasSubstr("bad_words_ids is empty"));
  EXPECT_THAT(problem_of({.top_p = 1.01}, kVocab), "top_p is 1.01; it must be a number from 0 to 1");
}

TEST(Sampling, ForcedAndBiasedIdsMustBeInTheVocabularyButBannedOnesNeedNot) {
  EXPECT_THAT(problem_of({.logit_bias = {{{10, 1.0}}}}, kVocab), "logit_bias has the id 10; the vocabulary has the ids 0 to 9");
  EXPECT_THAT(problem_of({.forced_bos_token_id = 12}, kVocab), HasSubstr("forced_bos_token_id"));
  EXPECT_THAT(problem_of({.forced_bos_token_id = -1}, kVocab), IsEmpty());
  EXPECT_THAT(problem_of({.forced_eos_token_id = {{10}}}, kVocab), HasSubstr("forced_eos_token_id"));
  EXPECT_THAT(problem_of({.suppress_tokens = {{-1, 99}}, .bad_words_ids = {{{12}}}}, kVocab), IsEmpty());
}

TEST(Sampling, OptionsOfTheCallerOverrideThoseOfTheFiles) {
  const Sampling files{.temperature = 0.5, .top_k = 40, .suppress_tokens = {{1, 2}}};
  const Sampling both = merged(files, {.top_k = 5, .seed = 7});
  EXPECT_EQ(both.temperature, 0.5);
  EXPECT_EQ(both.top_k, 5);
  EXPECT_EQ(both.seed, 7u);
  EXPECT_EQ(both.suppress_tokens, files.suppress_tokens);
  EXPECT_EQ(merged(files, {.suppress_tokens = std::vector<TokenId>()}).suppress_tokens->size(), 0u);
}

}  // namespace
}  // namespace kvik::sample
