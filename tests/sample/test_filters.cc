#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "sample/filters.h"
#include "sample/rows.h"

// Each filter beside a plain version that sorts the whole row and sums in long double.
namespace kvik::sample {
namespace {

using testing::ElementsAre;
constexpr size_t kSizes[] = {1, 2, 3, 10, 77, 1000, 50000};

// Indices by rank: larger logits first, of equals the lower index first.
std::vector<size_t> ranked(const std::vector<float>& row) {
  std::vector<size_t> order(row.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return row[a] > row[b]; });
  return order;
}

std::vector<long double> probabilities(const std::vector<float>& row) {
  const float largest = *std::ranges::max_element(row);
  std::vector<long double> p(row.size());
  long double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) sum += p[i] = std::exp(static_cast<long double>(row[i]) - static_cast<long double>(largest));
  for (long double& x : p) x /= sum;
  return p;
}

template <typename F>
void on_random_rows(const F& check) {
  for (const RowKind& kind : row_kinds()) {
    for (const size_t n : kSizes) {
      for (uint64_t seed = 0; seed < (n > 10000 ? 3 : 30); ++seed) {
        std::vector<float> row = random_row(n, seed, kind);
        row[seed % n] = 0.5f;  // never all banned
        check(row, seed);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// What a plain version keeps and removes, and how near each token is to the limit: within rounding either may be.
struct Verdict {
  bool keep;
  double distance = 1.0;
};

void expect_kept(const std::vector<float>& row, const std::vector<float>& got, const std::vector<Verdict>& verdicts) {
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] == -kInfinity) {
      ASSERT_EQ(got[i], -kInfinity);
    } else if (verdicts[i].distance > 1e-12) {
      ASSERT_EQ(got[i], verdicts[i].keep ? row[i] : -kInfinity) << i << " of " << row.size();
    }
  }
}

TEST(Filters, TopKKeepsTheKLargestAndAllThatEqualTheLast) {
  FilterScratch scratch;
  on_random_rows([&](const std::vector<float>& row, uint64_t seed) {
    for (const size_t k : {size_t{1}, size_t{2}, size_t{50}, 1 + seed % row.size(), row.size(), row.size() + 5}) {
      const float kth = k > row.size() ? -kInfinity : row[ranked(row)[k - 1]];
      std::vector<float> got = row, expected = row;
      for (float& x : expected) x = x < kth ? -kInfinity : x;
      keep_top_k(got, k, scratch);
      ASSERT_EQ(got, expected) << k << " of " << row.size();
    }
  });
}

TEST(Filters, TopPKeepsTheFewestTokensThatReachTheMass) {
  FilterScratch scratch;
  on_random_rows([&](const std::vector<float>& row, uint64_t) {
    const std::vector<long double> p = probabilities(row);
    const std::vector<size_t> order = ranked(row);
    for (const double mass : {0.0, 1e-6, 0.1, 0.5, 0.9, 0.95, 0.999, 0.9999999}) {
      std::vector<Verdict> verdicts(row.size());
      long double above = 0;
      for (const size_t i : order) {
        verdicts[i] = {above < static_cast<long double>(mass), std::abs(static_cast<double>(above) - mass)};
        above += p[i];
      }
      verdicts[order[0]] = {true};
      std::vector<float> got = row;
      keep_top_p(got, mass, scratch);
      expect_kept(row, got, verdicts);
      // Whatever the rounding, what stays is the top of the ranking.
      const auto stays = [&](size_t i) { return got[i] > -kInfinity; };
      ASSERT_TRUE(std::ranges::is_partitioned(order, stays));
      ASSERT_TRUE(stays(order[0]));
    }
  });
}

TEST(Filters, OfEqualTokensTopPKeepsTheLowerIds) {
  FilterScratch scratch;
  std::vector<float> row(1000, 1.0f);
  keep_top_p(row, 0.25, scratch);
  EXPECT_EQ(std::ranges::count(row, 1.0f), 250);
  EXPECT_TRUE(std::ranges::all_of(row.begin(), row.begin() + 250, [](float x) { return x == 1.0f; }));
  row = {-0.0f, 0.0f, -0.0f, 0.0f};
  keep_top_p(row, 0.5, scratch);
  EXPECT_THAT(row, ElementsAre(0.0f, 0.0f, -kInfinity, -kInfinity));
}

TEST(Filters, MinPAndEpsilonKeepTokensAboveTheirThreshold) {
  on_random_rows([&](const std::vector<float>& row, uint64_t) {
    const std::vector<long double> p = probabilities(row);
    const long double top = *std::ranges::max_element(p);
    for (const double limit : {1e-9, 0.001, 0.05, 0.3, 0.99}) {
      std::vector<Verdict> min_p(row.size()), epsilon(row.size());
      for (size_t i = 0; i < row.size(); ++i) {
        min_p[i] = {p[i] >= limit * top, static_cast<double>(std::abs(p[i] / (limit * top) - 1))};
        epsilon[i] = {p[i] >= limit || p[i] == top, static_cast<double>(std::abs(p[i] / static_cast<long double>(limit) - 1))};
      }
      std::vector<float> got = row;
      keep_min_p(got, limit);
      expect_kept(row, got, min_p);
      got = row;
      cut_epsilon(got, limit);
      expect_kept(row, got, epsilon);
    }
  });
}

long double entropy(const std::vector<long double>& p) {
  long double sum = 0;
  for (const long double x : p) sum -= x > 0 ? x * std::log(x) : 0;
  return sum;
}

TEST(Filters, EtaLowersTheLimitWhereTheEntropyIsHigh) {
  FilterScratch scratch;
  on_random_rows([&](const std::vector<float>& row, uint64_t) {
    const std::vector<long double> p = probabilities(row);
    const long double top = *std::ranges::max_element(p);
    for (const double eta : {1e-6, 0.001, 0.3}) {
      const long double limit = std::min<long double>(eta, std::sqrt(eta) * std::exp(-entropy(p)));
      std::vector<Verdict> verdicts(row.size());
      for (size_t i = 0; i < row.size(); ++i) verdicts[i] = {p[i] >= limit || p[i] == top, static_cast<double>(std::abs(p[i] / limit - 1))};
      std::vector<float> got = row;
      cut_eta(got, eta, scratch);
      expect_kept(row, got, verdicts);
    }
  });
}

TEST(Filters, TypicalKeepsTheTokensOfUsualSurprise) {
  FilterScratch scratch;
  on_random_rows([&](const std::vector<float>& row, uint64_t) {
    const std::vector<long double> p = probabilities(row);
    const long double expected_surprise = entropy(p);
    std::vector<float> far(row.size());
    for (size_t i = 0; i < row.size(); ++i)
      far[i] = p[i] > 0 ? static_cast<float>(std::abs(-std::log(p[i]) - expected_surprise)) : kInfinity;
    std::vector<size_t> order(row.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return far[a] < far[b]; });
    for (const double mass : {0.2, 0.9}) {
      long double sum = 0;
      float farthest = 0;
      for (size_t i = 0; i < order.size() && sum < static_cast<long double>(mass); ++i) {
        sum += p[order[i]];
        farthest = far[order[i]];
      }
      std::vector<Verdict> verdicts(row.size());
      for (size_t i = 0; i < row.size(); ++i)
        verdicts[i] = {far[i] <= farthest, std::abs(far[i] - farthest) < 1e-4f * farthest ? 0.0 : 1.0};
      std::vector<float> got = row;
      keep_typical(got, mass, scratch);
      expect_kept(row, got, verdicts);
      ASSERT_TRUE(std::ranges::any_of(got, [](float x) { return x > -kInfinity; }));
    }
  });
}

TEST(Filters, NanIsRemovedAndInfinityIsKept) {
  FilterScratch scratch;
  const std::vector<float> row = {1.0f, std::nanf(""), kInfinity, 2.0f, kInfinity};
  const auto filtered = [&](auto filter) {
    std::vector<float> got = row;
    filter(got);
    return got;
  };
  const auto only_infinite = ElementsAre(-kInfinity, -kInfinity, kInfinity, -kInfinity, kInfinity);
  EXPECT_THAT(filtered([&](auto& x) { keep_top_k(x, 2, scratch); }), only_infinite);
  EXPECT_THAT(filtered([&](auto& x) { keep_top_p(x, 0.9, scratch); }), only_infinite);
  EXPECT_THAT(filtered([&](auto& x) { keep_min_p(x, 0.1); }), only_infinite);
  EXPECT_THAT(filtered([&](auto& x) { cut_epsilon(x, 0.1); }), only_infinite);
}

TEST(Filters, ARowWithoutAnyLogitStaysWithout) {
  FilterScratch scratch;
  for (const float nothing : {-kInfinity, std::nanf("")}) {
    std::vector<float> row(5, nothing);
    keep_top_k(row, 2, scratch);
    keep_top_p(row, 0.5, scratch);
    keep_min_p(row, 0.5);
    keep_typical(row, 0.5, scratch);
    cut_epsilon(row, 0.5);
    cut_eta(row, 0.5, scratch);
    EXPECT_THAT(row, testing::Each(-kInfinity));
  }
  keep_top_p({}, 0.5, scratch);
  keep_typical({}, 0.5, scratch);
}

}  // namespace
}  // namespace kvik::sample
