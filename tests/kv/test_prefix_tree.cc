#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

#include "kv/prefix_tree.h"

namespace kvik::kv {
namespace {

constexpr PageShape kShape{64, 4};
using Tokens = std::vector<TokenId>;

// Each position holds a byte that depends on all tokens up to it, as keys and values do.
std::byte byte_at(std::span<const TokenId> tokens, size_t position) {
  uint32_t hash = 7;
  for (size_t i = 0; i <= position; ++i) hash = hash * 31 + static_cast<uint32_t>(tokens[i]) + 1;
  return static_cast<std::byte>(hash >> 8);
}

void compute(PageTable& table, std::span<const TokenId> tokens) {
  table.prepare(static_cast<int64_t>(tokens.size()));
  for (auto i = static_cast<size_t>(table.length()); i < tokens.size(); ++i)
    table.panels()[i / kShape.panel_positions][i % kShape.panel_positions] = byte_at(tokens, i);
  table.commit(static_cast<int64_t>(tokens.size()));
}

bool holds(const PageTable& table, std::span<const TokenId> tokens) {
  for (size_t i = 0; i < static_cast<size_t>(table.length()); ++i) {
    if (table.panels()[i / kShape.panel_positions][i % kShape.panel_positions] != byte_at(tokens, i)) return false;
  }
  return true;
}

Tokens numbers(int n, TokenId first = 0) {
  Tokens tokens;
  for (int i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

class Tree : public ::testing::Test {
 protected:
  // What a new session finds of these tokens.
  int64_t found(const Tokens& tokens) {
    PageTable table(store_);
    tree_.find(tokens, table);
    EXPECT_TRUE(holds(table, tokens));
    return table.length();
  }
  void compute_and_end(const Tokens& tokens) {
    PageTable table(store_);
    compute(table, tokens);
    tree_.add(tokens, table, 0, true);
  }

  std::shared_ptr<Budget> budget_ = std::make_shared<Budget>(16 * kShape.bytes());
  PageStore store_{kShape, budget_};
  PrefixTree tree_{store_, 1000};
};

TEST_F(Tree, FindsWhatWasComputedByExactTokens) {
  EXPECT_EQ(found(numbers(10)), 0);
  compute_and_end(numbers(10));
  EXPECT_EQ(found(numbers(10)), 10);
  EXPECT_EQ(found(numbers(20)), 10);
  EXPECT_EQ(found(numbers(7)), 7);
  EXPECT_EQ(found(numbers(10, 1)), 0);
  Tokens other = numbers(10);
  other[6] = 99;
  EXPECT_EQ(found(other), 6);
}

TEST_F(Tree, SequencesThatComputedTheSameShareOnePage) {
  PageTable first(store_), second(store_);
  compute(first, numbers(8));
  compute(second, numbers(8));
  EXPECT_EQ(store_.used_bytes(), 4 * kShape.bytes());
  tree_.add(numbers(8), first, 0, false);
  tree_.add(numbers(8), second, 0, false);
  EXPECT_EQ(store_.used_bytes(), 2 * kShape.bytes());
  EXPECT_TRUE(holds(second, numbers(8)));
}

TEST_F(Tree, ASequenceThatContinuesInAFoundPageDoesNotChangeIt) {
  compute_and_end(numbers(6));
  PageTable table(store_);
  Tokens tokens = numbers(6);
  tree_.find(tokens, table);
  tokens.insert(tokens.end(), {50, 51, 52});
  compute(table, tokens);
  EXPECT_TRUE(holds(table, tokens));
  EXPECT_EQ(found(numbers(10)), 6);
}

TEST_F(Tree, PagesAreAddedAsASequenceGrows) {
  PageTable table(store_);
  const Tokens tokens = numbers(30);
  size_t n_added = 0;
  for (size_t n = 1; n <= tokens.size(); ++n) {
    compute(table, std::span(tokens).first(n));
    tree_.add(std::span(tokens).first(n), table, n_added, false);
    n_added = n / kShape.panel_positions;
    EXPECT_EQ(found(tokens), static_cast<int64_t>(n / kShape.panel_positions * kShape.panel_positions));
  }
}

TEST_F(Tree, TheLeastRecentlyUsedLeafIsEvictedFirst) {
  compute_and_end(numbers(8));       // 2 pages
  compute_and_end(numbers(8, 100));  // 2 pages
  compute_and_end(numbers(8, 200));  // 2 pages
  EXPECT_EQ(found(numbers(8)), 8);   // now the newest
  ASSERT_TRUE(tree_.make_room(16 - 5));
  EXPECT_EQ(found(numbers(8, 100)), 4) << "its leaf went, the page before it stayed";
  EXPECT_EQ(found(numbers(8, 200)), 8);
  EXPECT_EQ(found(numbers(8)), 8);
  EXPECT_EQ(tree_.n_evicted(), 4);
}

TEST_F(Tree, PinnedPagesAndPagesInUseStay) {
  compute_and_end(numbers(8));
  compute_and_end(numbers(8, 100));
  EXPECT_EQ(tree_.pin(numbers(8)), 8);
  PageTable table(store_);
  tree_.find(numbers(8, 100), table);
  EXPECT_FALSE(tree_.make_room(16));
  EXPECT_TRUE(tree_.make_room(12));
  EXPECT_EQ(found(numbers(8)), 8);
  EXPECT_EQ(found(numbers(8, 100)), 8);
  table.clear();
  EXPECT_TRUE(tree_.make_room(14));
  EXPECT_EQ(found(numbers(8)), 8);
  EXPECT_EQ(found(numbers(8, 100)), 0);
}

TEST_F(Tree, ALongerPageReplacesAShorterOneOfTheSameTokens) {
  compute_and_end(numbers(5));
  compute_and_end(numbers(6));
  compute_and_end(numbers(8));
  EXPECT_EQ(store_.used_bytes(), 2 * kShape.bytes());
  EXPECT_EQ(found(numbers(8)), 8);
}

TEST_F(Tree, AKnownContinuationIsFound) {
  compute_and_end(numbers(8));
  Tokens next;
  tree_.continuation(numbers(5), 2, next);
  EXPECT_EQ(next, (Tokens{5, 6}));
  tree_.continuation(numbers(5), 9, next);
  EXPECT_EQ(next, (Tokens{5, 6, 7}));
  tree_.continuation(numbers(9), 9, next);
  EXPECT_EQ(next, Tokens{});
}

TEST_F(Tree, AContinuationGoesOnInTheMostRecentlyUsedOfTheNextPages) {
  const Tokens all = numbers(14);
  Tokens other = all;
  other[9] = 77;
  compute_and_end(other);
  compute_and_end(all);
  Tokens next;
  const auto expect = [&](const Tokens& text, size_t from, size_t to) {
    tree_.continuation(numbers(static_cast<int>(from)), to - from, next);
    EXPECT_EQ(next, Tokens(text.begin() + static_cast<ptrdiff_t>(from), text.begin() + static_cast<ptrdiff_t>(std::min<size_t>(to, 14))));
  };
  expect(all, 3, 12);
  expect(all, 4, 20);  // from the end of a page
  expect(all, 8, 13);
  PageTable table(store_);
  tree_.find(other, table);
  expect(other, 3, 20);
  tree_.clear();
}

// Random operations against a list of all token sequences that were ever added: what is found is right, and nothing is lost or leaked.
TEST_F(Tree, RandomOperationsFindOnlyWhatWasComputed) {
  std::mt19937 random(3);
  struct Live {
    std::unique_ptr<PageTable> table;
    Tokens tokens;
    size_t n_added = 0;
  };
  std::vector<Live> live;
  int64_t n_found = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto what = random() % 8;
    if (live.empty() || (what == 0 && live.size() < 4)) {
      Live one{std::make_unique<PageTable>(store_), {}, 0};
      for (auto n = random() % 12; n-- > 0;) one.tokens.push_back(static_cast<TokenId>(random() % 2));
      tree_.find(one.tokens, *one.table);
      n_found += one.table->length();
      ASSERT_TRUE(holds(*one.table, one.tokens));
      one.tokens.resize(static_cast<size_t>(one.table->length()));
      one.n_added = one.tokens.size() / kShape.panel_positions;
      live.push_back(std::move(one));
      continue;
    }
    Live& one = live[random() % live.size()];
    if (what < 5) {
      Tokens longer = one.tokens;
      for (auto n = 1 + random() % 5; n-- > 0;) longer.push_back(static_cast<TokenId>(random() % 2));
      if (longer.size() > 40 || !tree_.make_room(one.table->n_needed(static_cast<int64_t>(longer.size())))) continue;
      one.tokens = std::move(longer);
      compute(*one.table, one.tokens);
      const bool whole = random() % 3 == 0;
      tree_.add(one.tokens, *one.table, one.n_added, whole);
      one.n_added = one.tokens.size() / kShape.panel_positions;
    } else if (what == 5) {
      one.tokens.resize(random() % (one.tokens.size() + 1));
      one.table->rewind(static_cast<int64_t>(one.tokens.size()));
      one.n_added = std::min(one.n_added, one.tokens.size() / kShape.panel_positions);
    } else {
      tree_.add(one.tokens, *one.table, one.n_added, true);
      live.erase(live.begin() + (&one - live.data()));
    }
    for (const Live& each : live) ASSERT_TRUE(holds(*each.table, each.tokens)) << "operation " << i;
    ASSERT_LE(budget_->allocated_bytes(), budget_->limit_bytes());
  }
  EXPECT_GT(n_found, 1000);
  EXPECT_GT(tree_.n_evicted(), 1000);
  live.clear();
  tree_.clear();
  EXPECT_EQ(store_.used_bytes(), 0u);
}

}  // namespace
}  // namespace kvik::kv
