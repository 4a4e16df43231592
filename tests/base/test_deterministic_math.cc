#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "base/deterministic_math.h"

namespace kvik {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Distance in units in the last place of the result.
double error_in_ulps(double got, long double exact) {
  const double nearest = static_cast<double>(exact);
  const double ulp = std::max(std::nextafter(std::abs(nearest), kInfinity) - std::abs(nearest), std::numeric_limits<double>::denorm_min());
  return static_cast<double>(std::abs(static_cast<long double>(got) - exact) / static_cast<long double>(ulp));
}

TEST(DeterministicMath, ExpErrorIsBelowOneUlp) {
  std::mt19937_64 random(1);
  double worst = 0;
  for (const double range : {0.4, 1.0, 30.0, 700.0, 745.0}) {
    std::uniform_real_distribution<double> uniform(-range, std::min(range, 709.7));
    for (int i = 0; i < 200000; ++i) {
      const double x = uniform(random);
      worst = std::max(worst, error_in_ulps(deterministic_exp(x), std::exp(static_cast<long double>(x))));
    }
  }
  EXPECT_LT(worst, 1.0);
}

TEST(DeterministicMath, ExpHandlesLimitsAndSpecialValues) {
  EXPECT_EQ(deterministic_exp(0.0), 1.0);
  EXPECT_EQ(deterministic_exp(-0.0), 1.0);
  EXPECT_EQ(deterministic_exp(-kInfinity), 0.0);
  EXPECT_EQ(deterministic_exp(-1e300), 0.0);
  EXPECT_EQ(deterministic_exp(kInfinity), kInfinity);
  EXPECT_EQ(deterministic_exp(710.0), kInfinity);
  EXPECT_TRUE(std::isfinite(deterministic_exp(709.78)));
  EXPECT_GT(deterministic_exp(-745.0), 0.0);
  EXPECT_TRUE(std::isnan(deterministic_exp(kNan)));
}

TEST(DeterministicMath, LogErrorIsBelowOneUlp) {
  std::mt19937_64 random(2);
  std::uniform_int_distribution<uint64_t> any_positive(1, 0x7fefffffffffffff);
  std::uniform_real_distribution<double> near_one(0.5, 2.0);
  std::uniform_real_distribution<double> sums(1.0, 300000.0);
  double worst = 0;
  for (int i = 0; i < 300000; ++i) {
    for (const double x : {std::bit_cast<double>(any_positive(random)), near_one(random), sums(random)}) {
      worst = std::max(worst, error_in_ulps(deterministic_log(x), std::log(static_cast<long double>(x))));
    }
  }
  EXPECT_LT(worst, 1.0);
}

TEST(DeterministicMath, LogHandlesLimitsAndSpecialValues) {
  EXPECT_EQ(deterministic_log(1.0), 0.0);
  EXPECT_EQ(deterministic_log(0.0), -kInfinity);
  EXPECT_EQ(deterministic_log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(deterministic_log(-1.0)));
  EXPECT_TRUE(std::isnan(deterministic_log(kNan)));
}

TEST(DeterministicMath, PowIsExactForIntegersAndCloseForOthers) {
  EXPECT_EQ(deterministic_pow(7.0, 0.0), 1.0);
  EXPECT_EQ(deterministic_pow(7.0, 1.0), 7.0);
  EXPECT_EQ(deterministic_pow(7.0, 3.0), 343.0);
  EXPECT_EQ(deterministic_pow(8.0, -2.0), 1.0 / 64.0);
  for (int length = 1; length < 2000; ++length) {
    for (const double penalty : {0.6, -0.4, 1.2, 2.5}) {
      const double exact = std::pow(length, penalty);
      EXPECT_NEAR(deterministic_pow(length, penalty), exact, 1e-14 * exact);
    }
  }
}

// Expected bits, for every compiler and processor.
TEST(DeterministicMath, BitsAreTheSameOnEveryMachine) {
  EXPECT_EQ(std::bit_cast<uint64_t>(deterministic_exp(-1.0)), 0x3fd78b56362cef38u);
  uint64_t mixed = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = -40.0 + 0.0005 * i;
    mixed = mixed * 6364136223846793005u + std::bit_cast<uint64_t>(deterministic_exp(x));
    mixed = mixed * 6364136223846793005u + std::bit_cast<uint64_t>(deterministic_log(1.0 + 0.37 * i));
  }
  EXPECT_EQ(mixed, 16111901147520915821u);
}

}  // namespace
}  // namespace kvik
