#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

#include "sample/log_softmax.h"
#include "sample/rows.h"

namespace kvik::sample {
namespace {

TEST(LogSoftmax, EqualsTheLogOfTheSoftmax) {
  for (const RowKind& kind : row_kinds()) {
    for (const size_t n : std::vector<size_t>{1, 2, 15, 16, 17, 511, 512, 513, 50000}) {
      std::vector<float> row = random_row(n, 1, kind);
      row[n / 2] = 1.5f;
      long double sum = 0;
      for (const float x : row) sum += std::exp(static_cast<long double>(x));
      std::vector<float> got(n);
      log_softmax(row, got);
      for (size_t i = 0; i < n; ++i) {
        const auto exact = static_cast<double>(static_cast<long double>(row[i]) - std::log(sum));
        if (row[i] == -kInfinity) {
          ASSERT_EQ(got[i], -kInfinity);
          continue;
        }
        ASSERT_NEAR(log_prob_of(row, static_cast<TokenId>(i)), exact, 3e-7);
        ASSERT_NEAR(got[i], exact, 3e-7 + 1e-7 * std::abs(exact));
        if (n > 600) i += 4999;
      }
    }
  }
}

TEST(LogSoftmax, WorksInPlaceAndAtAnyOffset) {
  std::vector<float> row = random_row(1000, 3), expected(1000), shifted = row;
  log_softmax(row, expected);
  log_softmax(row, row);
  EXPECT_EQ(row, expected);
  for (float& x : shifted) x += 10000.0f;
  log_softmax(shifted, shifted);
  for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(shifted[i], expected[i], 2e-3);
}

TEST(LogSoftmax, BannedAndNanHaveZeroProbabilityAndInfinityHasAll) {
  const std::vector<float> row = {0.0f, -kInfinity, kNan, 0.0f};
  std::vector<float> got(4);
  log_softmax(row, got);
  EXPECT_THAT(got, testing::ElementsAre(testing::FloatEq(std::log(0.5f)), -kInfinity, -kInfinity, testing::FloatEq(std::log(0.5f))));
  log_softmax(std::vector<float>{kInfinity, 1.0f, kInfinity, kNan}, got);
  EXPECT_THAT(got, testing::ElementsAre(testing::FloatEq(std::log(0.5f)), -kInfinity, testing::FloatEq(std::log(0.5f)), -kInfinity));
  log_softmax(std::vector<float>{kNan, -kInfinity, kNan, -kInfinity}, got);
  EXPECT_THAT(got, testing::Each(-kInfinity));
}

}  // namespace
}  // namespace kvik::sample
