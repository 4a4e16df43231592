#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>

#include "sample/penalties.h"
#include "sample/rows.h"

namespace kvik::sample {
namespace {

using testing::ElementsAre;

TEST(TokenCounts, ForgetsTheListBeforeAndTheSizeOfTheVocabularyBefore) {
  TokenCounts counts;
  counts.count(std::vector<TokenId>{4, 1, 4, -1, 7, 99}, 8);
  EXPECT_THAT(counts.distinct(), ElementsAre(4, 1, 7));
  EXPECT_EQ(counts.of(4), 2u);
  counts.count(std::vector<TokenId>{1, 7}, 5);
  EXPECT_THAT(counts.distinct(), ElementsAre(1));
  EXPECT_EQ(counts.of(4), 0u);
  counts.count(std::vector<TokenId>{}, 100);
  EXPECT_EQ(counts.of(1) + counts.of(7) + counts.of(99), 0u);
}

TEST(Penalties, RepetitionCountsOnceAndMakesALogitOfEitherSignSmaller) {
  std::vector<float> logits = {2.0f, -2.0f, 3.0f, 0.0f, -kInfinity};
  TokenCounts scratch;
  penalize_repetition(logits, std::vector<TokenId>{0, 0, 1, 3, 4, 4, 17}, 2.0, scratch);
  EXPECT_THAT(logits, ElementsAre(1.0f, -4.0f, 3.0f, 0.0f, -kInfinity));
}

TEST(Penalties, PresenceIsSubtractedOnceAndFrequencyAsOftenAsATokenOccurs) {
  std::vector<float> logits = {1.0f, 1.0f, 1.0f};
  TokenCounts scratch;
  penalize_counts(logits, std::vector<TokenId>{2, 2, 2, 1}, {.presence = 0.5, .frequency = 0.25}, scratch);
  EXPECT_THAT(logits, ElementsAre(1.0f, 0.25f, -0.25f));
}

TEST(Penalties, AgreeWithCountingByHandOnRandomRows) {
  TokenCounts scratch;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const size_t vocab = 1 + random() % (seed % 10 == 0 ? 50000 : 100);
    std::vector<TokenId> tokens(random() % 60);
    for (TokenId& id : tokens) id = static_cast<TokenId>(random() % vocab);
    std::vector<float> logits = random_row(vocab, seed), expected = logits;
    std::map<TokenId, int> occurrences;
    for (const TokenId id : tokens) ++occurrences[id];
    for (const auto& [id, n] : occurrences) {
      float& x = expected[static_cast<size_t>(id)];
      x = x < 0 ? x * 1.3f : x / 1.3f;
      x = (x - 0.7f * static_cast<float>(n)) - 0.2f;
    }
    penalize_repetition(logits, tokens, 1.3, scratch);
    penalize_counts(logits, tokens, {.presence = 0.2, .frequency = 0.7}, scratch);
    ASSERT_EQ(logits, expected) << seed;
  }
}

TEST(Penalties, EndsGainWithLengthWhateverTheirSignAndABannedOneStaysBanned) {
  std::vector<float> logits = {2.0f, -2.0f, 3.0f, -kInfinity};
  favor_ends(logits, std::vector<TokenId>{0, 1, 0, 3, 50}, 1.5, 2);
  EXPECT_THAT(logits, ElementsAre(4.5f, 0.5f, 3.0f, -kInfinity));
}

TEST(Penalties, InvalidValuesBecomeFinite) {
  std::vector<float> logits = {std::nanf(""), kInfinity, -kInfinity, 1.0f};
  replace_invalid(logits);
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_THAT(logits, ElementsAre(0.0f, kLargest, -kLargest, 1.0f));
}

}  // namespace
}  // namespace kvik::sample
