#include <gmock/gmock.h>
#include <random>

#include "engine/draft.h"
#include "engine/lookup.h"
#include "engine/payoff.h"
#include "support/models.h"

namespace kvik::engine {
namespace {

using testing::ElementsAre;
using Tokens = std::vector<TokenId>;

Tokens proposed_by(Proposer& proposer, const Tokens& tokens, size_t n) {
  Tokens proposed;
  if (proposer.match(tokens)) proposer.propose(tokens, n, proposed);
  return proposed;
}

TEST(Lookup, ProposesWhatFollowedTheLongestMatchOfTheEnd) {
  LookupProposer lookup(nullptr, 100);
  //                                 1 2 3 → 7          2 3 → 8 (newer, but shorter)
  EXPECT_THAT(proposed_by(lookup, {1, 2, 3, 7, 9, 5, 2, 3, 8, 4, 1, 2, 3}, 3), ElementsAre(7, 9, 5));
}

TEST(Lookup, PrefersTheNewestOfEquallyLongMatches) {
  LookupProposer lookup(nullptr, 100);
  EXPECT_THAT(proposed_by(lookup, {1, 2, 7, 5, 1, 2, 8, 6, 1, 2}, 2), ElementsAre(8, 6));
}

TEST(Lookup, ContinuesARepetitionPastTheEnd) {
  LookupProposer lookup(nullptr, 100);
  EXPECT_THAT(proposed_by(lookup, {4, 1, 2, 3, 1, 2, 3, 1, 2}, 7), ElementsAre(3, 1, 2, 3, 1, 2, 3));
}

TEST(Lookup, ProposesNothingWithoutAMatch) {
  LookupProposer lookup(nullptr, 100);
  EXPECT_THAT(proposed_by(lookup, {1}, 4), ElementsAre());
  EXPECT_THAT(proposed_by(lookup, {1, 2}, 4), ElementsAre());
  EXPECT_THAT(proposed_by(lookup, {1, 2, 3, 4, 5, 2}, 4), ElementsAre());
}

TEST(Lookup, TheSecondContinuationIsFromAMatchThatContinuedDifferently) {
  LookupProposer lookup(nullptr, 100);
  const auto expect_other = [&](const Tokens& tokens, const Tokens& first, std::optional<size_t> branch, const Tokens& second) {
    Tokens other;
    EXPECT_EQ(proposed_by(lookup, tokens, first.size()), first);
    EXPECT_EQ(lookup.propose_other(tokens, 2, first, other), branch);
    EXPECT_EQ(other, second);
    lookup = LookupProposer(nullptr, 100);
  };
  expect_other({1, 2, 7, 5, 1, 2, 8, 6, 1, 2}, {8, 6}, 0, {7, 5});
  expect_other({4, 1, 2, 3, 7, 5, 1, 2, 3, 8, 6, 1, 2}, {3, 8, 6}, 1, {7, 5});
  expect_other({4, 1, 2, 3, 7, 5, 1, 2, 3, 8, 6, 1, 2}, {3}, std::nullopt, {});
  expect_other({1, 2, 7, 5, 6, 1, 2}, {7, 5}, std::nullopt, {});
}

TEST(Lookup, StepByStepEqualsAllAtOnce) {
  std::mt19937 random(5);
  Tokens tokens;
  LookupProposer stepwise(nullptr, 300);
  for (int i = 0; i < 300; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % 4));
    LookupProposer at_once(nullptr, 300);
    ASSERT_EQ(proposed_by(stepwise, tokens, 5), proposed_by(at_once, tokens, 5)) << i;
  }
}

TEST(Lookup, ProposesTokensOfAnotherSequence) {
  const std::shared_ptr<backend::Backend> backend = testing_support::open_native(testing_support::source_root() / "models" / "fable");
  Tokens story;
  for (int i = 0; i < 75; ++i) story.push_back(static_cast<TokenId>(7 * i + 3));  // no token twice, over two ends of pages
  Sequence earlier(backend, 0);
  earlier.reuse_prefixes();
  ASSERT_EQ(earlier.append(story), AppendStatus::kDone);
  LookupProposer lookup(backend, 100);
  Tokens tokens(story.begin(), story.begin() + 3);
  ASSERT_EQ(lookup.match(tokens), Evidence::kOtherSession);
  for (size_t n = 3; n + 4 <= story.size(); ++n) {
    const Tokens proposed = proposed_by(lookup, tokens, 4);
    ASSERT_FALSE(proposed.empty()) << n;
    EXPECT_TRUE(std::equal(proposed.begin(), proposed.end(), story.begin() + static_cast<ptrdiff_t>(n))) << n;
    tokens.push_back(story[n]);
  }
  tokens.back() = (tokens.back() + 1) % 24;  // goes another way
  EXPECT_NE(lookup.match(tokens), Evidence::kOtherSession);
}

TEST(Draft, ProposesTheLikeliestContinuation) {
  const std::shared_ptr<backend::Backend> backend = testing_support::open_native(testing_support::fixtures() / "forms" / "plain");
  const auto decoder = std::make_shared<Decoder>(backend);
  DraftProposer draft(decoder, 0, 1000, false);
  Tokens tokens = {3, 10, 17};
  const auto likeliest = [&](Tokens after, size_t n) {
    Tokens next;
    for (size_t i = 0; i < n; ++i) {
      Sequence sequence(backend, 0);
      EXPECT_EQ(sequence.append(after), AppendStatus::kDone);
      next.push_back(static_cast<TokenId>(std::ranges::max_element(sequence.logits()) - sequence.logits().begin()));
      after.push_back(next.back());
    }
    return next;
  };
  EXPECT_EQ(proposed_by(draft, tokens, 4), likeliest(tokens, 4));
  const Tokens all = likeliest(tokens, 5);
  tokens.insert(tokens.end(), all.begin(), all.end());  // all accepted, and one more
  EXPECT_EQ(proposed_by(draft, tokens, 3), likeliest(tokens, 3));
  for (const TokenId other : {1, 9, 20}) {  // all rejected
    tokens.insert(tokens.end(), {other, other + 2});
    EXPECT_EQ(proposed_by(draft, tokens, 3), likeliest(tokens, 3));
  }
}

TEST(Draft, ProposesNoTokenOutsideTheVocabularyOfTheModel) {
  const auto decoder = std::make_shared<Decoder>(testing_support::open_native(testing_support::fixtures() / "forms" / "plain"));
  DraftProposer whole(decoder, 0, 1000, false), part(decoder, 0, 12, false);
  bool differs = false;
  for (TokenId first = 0; first < 10; ++first) {
    const Tokens proposed = proposed_by(part, {first, 1, 2}, 6);
    EXPECT_THAT(proposed, testing::Each(testing::Lt(12)));
    EXPECT_EQ(proposed.size(), 6u);
    differs |= proposed != proposed_by(whole, {first, 1, 2}, 6);
  }
  EXPECT_TRUE(differs) << "the model would choose no other token anyway";
}

TEST(Draft, ATokenThatTheDraftDoesNotHaveEndsItsProposals) {
  const auto decoder = std::make_shared<Decoder>(testing_support::open_native(testing_support::fixtures() / "forms" / "plain"));
  DraftProposer draft(decoder, 0, 1000, false);
  EXPECT_EQ(proposed_by(draft, {1, 2, 3}, 4).size(), 4u);
  EXPECT_EQ(proposed_by(draft, {1, 2, 3, 500}, 4).size(), 0u);
  EXPECT_EQ(proposed_by(draft, {1, 2, 3, 500, 1}, 4).size(), 0u);
}

TEST(Draft, AFullContextEndsItsProposals) {
  const auto decoder = std::make_shared<Decoder>(testing_support::open_native(testing_support::fixtures() / "forms" / "plain"));
  DraftProposer draft(decoder, 6, 1000, false);
  EXPECT_EQ(proposed_by(draft, {1, 2, 3, 4}, 8).size(), 3u);
  EXPECT_EQ(proposed_by(draft, {1, 2, 3, 4, 5, 6}, 8).size(), 1u);
  EXPECT_EQ(proposed_by(draft, {1, 2, 3, 4, 5, 6, 7}, 8).size(), 0u);
}

// Runs that cost 10 units and 2 more per proposed token; `accepts(t)` is the probability that a proposed token is right at time t.
struct Simulation {
  double plain_cost = 0, with_cost = 0;
  int n_proposed = 0;

  explicit Simulation(int n_tokens, const std::function<double(int)>& accepts, double row_cost = 2) {
    std::mt19937 random(3);
    Payoff payoff;
    for (int t = 0; t < n_tokens;) {
      const size_t k = payoff.depth(Evidence::kMatch, 15);
      size_t n_accepted = 0;
      while (n_accepted < k && std::uniform_real_distribution<>()(random) < accepts(t)) ++n_accepted;
      const double cost = 10 + row_cost * static_cast<double>(k);
      k == 0 ? payoff.add_plain_run(cost, 0)
             : payoff.add_run({.evidence = Evidence::kMatch, .n_proposed = k, .n_accepted = n_accepted}, cost, 0);
      n_proposed += static_cast<int>(k);
      with_cost += cost;
      plain_cost += 10 * static_cast<double>(1 + n_accepted);
      t += 1 + static_cast<int>(n_accepted);
    }
  }
};

TEST(Payoff, ProposalsThatAreNeverRightCostLessThanTwoPercent) {
  for (const double row_cost : {0.5, 2.0, 10.0}) {
    const Simulation wrong(
        500, [](int) { return 0.0; }, row_cost);
    EXPECT_LT(wrong.with_cost, 1.02 * wrong.plain_cost) << row_cost;
    EXPECT_GT(wrong.n_proposed, 0);
  }
}

TEST(Payoff, ProposalsThatAreAlwaysRightAreAsDeepAsAllowed) {
  const Simulation right(2000, [](int) { return 1.0; });
  EXPECT_LT(right.with_cost, 0.30 * right.plain_cost);
}

TEST(Payoff, ProposalsThatAreOftenRightPayOff) {
  const Simulation often(2000, [](int) { return 0.7; });
  EXPECT_LT(often.with_cost, 0.75 * often.plain_cost);
}

TEST(Payoff, TriesAgainAfterATimeWithoutSuccess) {
  const Simulation later(4000, [](int t) { return t < 2000 ? 0.0 : 0.95; });
  EXPECT_LT(later.with_cost - 20000, 0.5 * (later.plain_cost - 20000));
}

TEST(Payoff, ProposalsThatCostAsMuchAsTheySaveAreNotMade) {
  const Simulation even(
      2000, [](int) { return 0.5; }, 10);
  EXPECT_LT(even.with_cost, 1.02 * even.plain_cost);
}

// Tokens per cost if a second idea, beside a first one that is right half of the time, is right with a probability of `other`.
struct OtherSimulation {
  int n_other = 0, n_runs = 0;
  double cost = 0;

  explicit OtherSimulation(double other, double row_cost) {
    std::mt19937 random(3);
    const auto happens = [&](double probability) { return std::uniform_real_distribution<>()(random) < probability; };
    Payoff payoff;
    for (int t = 0; t < 4000; ++n_runs) {
      const size_t k = payoff.depth(Evidence::kMatch, 15), n = k == 0 ? 0 : payoff.other_depth(Evidence::kMatch, k, 0, 4);
      Payoff::Outcome outcome{.evidence = Evidence::kMatch, .n_proposed = k, .n_other = n};
      while (outcome.n_accepted < k && happens(0.5)) ++outcome.n_accepted;
      outcome.other_was_due = n > 0 && outcome.n_accepted == 0;
      while (outcome.other_was_due && outcome.n_other_accepted < n && happens(other)) ++outcome.n_other_accepted;
      const double ms = 10 + row_cost * static_cast<double>(k + n);
      k == 0 ? payoff.add_plain_run(ms, 0) : payoff.add_run(outcome, ms, 0);
      n_other += n > 0 ? 1 : 0;
      cost += ms;
      t += 1 + static_cast<int>(outcome.n_accepted + outcome.n_other_accepted);
    }
  }
};

TEST(Payoff, SecondIdeasAreProposedIfTheyAreOftenRight) {
  const OtherSimulation right(0.9, 1), wrong(0.0, 1);
  EXPECT_GT(right.n_other, right.n_runs / 2);
  EXPECT_LT(right.cost, 0.9 * wrong.cost);
}

TEST(Payoff, SecondIdeasThatAreWrongOrExpensiveAreSeldomProposed) {
  for (const OtherSimulation& simulation : {OtherSimulation(0.0, 1), OtherSimulation(0.3, 4)}) {
    EXPECT_GT(simulation.n_other, 0);
    EXPECT_LT(simulation.n_other, simulation.n_runs / 16);
  }
}

}  // namespace
}  // namespace kvik::engine
