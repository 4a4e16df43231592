#include <gmock/gmock.h>
#include <random>

#include "engine/token_list.h"

namespace kvik::engine {
namespace {

using Tokens = std::vector<TokenId>;

Tokens all_of(const TokenList& list) { return {list.all().begin(), list.all().end()}; }

Tokens in_view(const TokenList& list) {
  Tokens copy;
  const std::span<const TokenId> slice = list.view().slice(0, list.size(), copy);
  return {slice.begin(), slice.end()};
}

TokenList list_of(int n) {
  TokenList list;
  for (int i = 0; i < n; ++i) list.push(i);
  return list;
}

TEST(TokenList, CopiesContinueIndependently) {
  TokenList origin = list_of(5);
  TokenList first = origin, second = origin;
  first.push(10);
  second.push(20);
  origin.push(30);
  EXPECT_EQ(all_of(first), Tokens({0, 1, 2, 3, 4, 10}));
  EXPECT_EQ(all_of(second), Tokens({0, 1, 2, 3, 4, 20}));
  EXPECT_EQ(all_of(origin), Tokens({0, 1, 2, 3, 4, 30}));
}

TEST(TokenList, AShorterCopyDoesNotOverwriteWhatOthersHold) {
  TokenList origin = list_of(5);
  const TokenList copy = origin;
  origin.shorten(2);
  origin.push(9);
  EXPECT_EQ(all_of(origin), Tokens({0, 1, 9}));
  EXPECT_EQ(all_of(copy), Tokens({0, 1, 2, 3, 4}));
}

TEST(TokenList, CopiesShareTheirTokensUntilOneIsReadAsAWhole) {
  TokenList origin = list_of(5000);
  TokenList copy = origin;
  EXPECT_EQ(copy.all().data(), origin.all().data());
  origin.push(1);
  copy.push(2);
  Tokens unused;
  EXPECT_EQ(copy.view().slice(0, 5000, unused).data(), origin.all().data());
  EXPECT_THAT(copy.from(5000), testing::ElementsAre(2));
  EXPECT_EQ(copy.view().slice(0, 5000, unused).data(), origin.all().data());
  EXPECT_NE(copy.all().data(), origin.all().data());
}

TEST(TokenList, AnOnlyOwnerReusesItsMemoryAfterItWasShortened) {
  TokenList list = list_of(100);
  { const TokenList gone = list; }
  const TokenId* const before = list.all().data();
  list.shorten(10);
  for (int i = 0; i < 90; ++i) list.push(i);
  EXPECT_EQ(list.all().data(), before);
}

TEST(TokenList, RandomCopiesHoldWhatVectorsWould) {
  std::mt19937 random(4);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::vector<TokenList> lists(1);
  std::vector<Tokens> expected(1);
  for (int step = 0; step < 20000; ++step) {
    const size_t i = below(lists.size());
    switch (below(8)) {
      case 0:
        if (lists.size() < 8) {
          lists.push_back(lists[i]);
          expected.push_back(Tokens(expected[i]));
        } else {
          lists.erase(lists.begin() + static_cast<ptrdiff_t>(i));
          expected.erase(expected.begin() + static_cast<ptrdiff_t>(i));
        }
        break;
      case 1:
        expected[i].resize(below(expected[i].size() + 1));
        lists[i].shorten(expected[i].size());
        break;
      case 2: lists[i].reserve(below(3000)); break;
      case 3: ASSERT_EQ(all_of(lists[i]), expected[i]); break;
      case 4: ASSERT_EQ(in_view(lists[i]), expected[i]); break;
      default:
        for (size_t n = below(20) == 0 ? 1500 : 1 + below(40); n > 0; --n) {
          expected[i].push_back(static_cast<TokenId>(random() % 1000));
          lists[i].push(expected[i].back());
        }
    }
    const size_t any = below(lists.size());
    ASSERT_EQ(lists[any].size(), expected[any].size());
  }
}

}  // namespace
}  // namespace kvik::engine
