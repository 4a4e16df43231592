#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

#include "sample/choice.h"
#include "sample/rows.h"

namespace kvik::sample {
namespace {

TEST(Choice, GreedyTakesTheFirstOfTheLargest) {
  for (const RowKind& kind : row_kinds()) {
    for (const size_t n : std::vector<size_t>{1, 2, 15, 16, 17, 100, 50000}) {
      const std::vector<float> row = random_row(n, n, kind);
      const auto first = std::ranges::max_element(row);
      EXPECT_EQ(choose_greedily(row), *first == -kInfinity ? std::nullopt : std::optional<size_t>(first - row.begin()));
    }
  }
}

TEST(Choice, NaNIsNeverChosenAndARowOfNaNsHasNoChoice) {
  FilterScratch scratch;
  Rng rng(1);
  EXPECT_EQ(choose_greedily(std::vector<float>{kNan, 1.0f, kNan, 2.0f}), 3u);
  EXPECT_EQ(choose_randomly(std::vector<float>{kNan, -kInfinity, kNan, 2.0f}, rng, scratch), 3u);
  EXPECT_EQ(choose_randomly(std::vector<float>{kInfinity, 5.0f}, rng, scratch), 0u);
  for (const std::vector<float>& row : {std::vector<float>{}, std::vector<float>{kNan, kNan}, std::vector<float>{-kInfinity, -kInfinity}}) {
    EXPECT_EQ(choose_greedily(row), std::nullopt);
    EXPECT_EQ(choose_randomly(row, rng, scratch), std::nullopt);
  }
  EXPECT_THAT(why_no_choice({}), testing::HasSubstr("empty"));
  EXPECT_THAT(why_no_choice(std::vector<float>{kNan, kNan}), testing::HasSubstr("2 of 2 logits are NaN"));
  EXPECT_THAT(why_no_choice(std::vector<float>{-kInfinity}), testing::HasSubstr("all 1 are suppressed"));
}

TEST(Choice, TokensAreDrawnWithTheirProbability) {
  FilterScratch scratch;
  const std::vector<float> row = {std::log(0.5f), -kInfinity, std::log(0.3f), std::log(0.19f), std::log(0.01f)};
  Rng rng(5);
  std::vector<int> counts(row.size());
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) ++counts[*choose_randomly(row, rng, scratch)];
  EXPECT_EQ(counts[1], 0);
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(counts[i] / static_cast<double>(kDraws), std::exp(row[i]), 0.005);
}

TEST(Choice, IsTheInverseOfTheCumulativeSum) {
  FilterScratch scratch;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<float> row = random_row(1 + seed * 7 % 400, seed, row_kinds()[seed % row_kinds().size()]);
    row[0] = 0.25f;
    long double whole = 0, sum = 0;
    for (const float x : row) whole += std::exp(static_cast<long double>(x));
    Rng rng(seed, 3), same(seed, 3);
    const long double target = static_cast<long double>(same.uniform()) * whole;
    size_t expected = 0;
    while ((sum += std::exp(static_cast<long double>(row[expected]))) <= target) ++expected;
    EXPECT_EQ(choose_randomly(row, rng, scratch), expected) << seed;
  }
}

// What every machine must draw from these logits, which are exact in binary.
TEST(Choice, TheSameSeedGivesTheSameTokensEverywhere) {
  FilterScratch scratch;
  std::vector<float> row(1000);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i * 7919 % 1000) / 128.0f;
  Rng rng(2024, 1);
  std::vector<size_t> drawn;
  for (int i = 0; i < 8; ++i) drawn.push_back(*choose_randomly(row, rng, scratch));
  EXPECT_THAT(drawn, testing::ElementsAre(630, 3, 423, 75, 199, 15, 781, 163));
}

}  // namespace
}  // namespace kvik::sample
