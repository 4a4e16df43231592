#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <random>

#include "sample/bans.h"

namespace kvik::sample {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Ids = std::vector<TokenId>;
constexpr float kBanned = -std::numeric_limits<float>::infinity();

std::vector<float> zeros(size_t n) { return std::vector<float>(n, 0.0f); }

Ids banned_in(const std::vector<float>& logits) {
  Ids ids;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == kBanned) ids.push_back(static_cast<TokenId>(i));
  }
  return ids;
}

TEST(Bans, IdsOutsideTheVocabularyAreSkipped) {
  std::vector<float> logits = zeros(4);
  ban(logits, Ids{-1, 2, 4, 1000});
  EXPECT_THAT(banned_in(logits), ElementsAre(2));
  force(logits, Ids{-1, 1, 4});
  EXPECT_THAT(logits, ElementsAre(kBanned, 0.0f, kBanned, kBanned));
}

// The table of all n-grams, made anew each time.
Ids ngram_bans_by_table(const Ids& source, const Ids& tokens, size_t n) {
  std::map<Ids, std::vector<TokenId>> followers;
  for (size_t i = 0; i + n <= source.size(); ++i) {
    followers[Ids(source.begin() + static_cast<long>(i), source.begin() + static_cast<long>(i + n - 1))].push_back(source[i + n - 1]);
  }
  if (tokens.size() + 1 < n) return {};
  Ids bans = followers[Ids(tokens.end() - static_cast<long>(n - 1), tokens.end())];
  std::ranges::sort(bans);
  bans.erase(std::unique(bans.begin(), bans.end()), bans.end());
  return bans;
}

TEST(Bans, NGramsAgreeWithATableOfAllOfThem) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const size_t vocab = 2 + random() % 4, n = 1 + random() % 5;
    Ids tokens(random() % 40), source(random() % 40);
    for (TokenId& id : tokens) id = static_cast<TokenId>(random() % vocab);
    for (TokenId& id : source) id = static_cast<TokenId>(random() % vocab);
    std::vector<float> logits = zeros(vocab);
    ban_repeated_ngrams(logits, tokens, n);
    ASSERT_EQ(banned_in(logits), ngram_bans_by_table(tokens, tokens, n)) << seed;
    logits = zeros(vocab);
    ban_ngrams_of(source, logits, tokens, n);
    ASSERT_EQ(banned_in(logits), ngram_bans_by_table(source, tokens, n)) << seed;
  }
}

TEST(Bans, ASequenceIsBannedAtItsLastTokenOnly) {
  const std::vector<Ids> sequences = {{5}, {1, 2}, {3, 1, 4}};
  std::vector<float> logits = zeros(6);
  ban_sequences(logits, Ids{0, 3, 1}, sequences);
  EXPECT_THAT(banned_in(logits), ElementsAre(2, 4, 5));
  logits = zeros(6);
  ban_sequences(logits, Ids{3, 1, 0}, sequences);
  EXPECT_THAT(banned_in(logits), ElementsAre(5));
}

TEST(Bans, ASequenceLongerThanTheTokensIsSkipped) {
  std::vector<float> logits = zeros(3);
  ban_sequences(logits, Ids{1}, std::vector<Ids>{{1, 2}});
  EXPECT_THAT(banned_in(logits), IsEmpty());
  ban_sequences(logits, Ids{0, 1}, std::vector<Ids>{{1, 2}});
  EXPECT_THAT(banned_in(logits), ElementsAre(2));
}

TEST(Bans, BiasesOfATokenAddUpAndTheLastOfEqualSequencesCounts) {
  const std::vector<SequenceBias> entries = {{{2}, 1.0}, {{1, 2}, 4.0}, {{0, 2}, 16.0}, {{3}, kBanned}, {{1, 2}, 8.0}};
  const SequenceBiases biases(entries);
  std::vector<float> logits = zeros(4);
  biases.apply(logits, Ids{0, 1});
  EXPECT_THAT(logits, ElementsAre(0.0f, 0.0f, 9.0f, kBanned));
  biases.apply(logits, Ids{1, 0});
  EXPECT_THAT(logits, ElementsAre(0.0f, 0.0f, 26.0f, kBanned));
}

}  // namespace
}  // namespace kvik::sample
