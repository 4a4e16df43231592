#include <gmock/gmock.h>

#include "engine/sequence.h"
#include "engine/tree.h"
#include "kvik/error.h"
#include "support/models.h"

namespace kvik::engine {
namespace {

std::shared_ptr<backend::Backend> plain() { return testing_support::open_reference(testing_support::fixtures() / "forms" / "plain"); }

std::vector<float> copy(std::span<const float> row) { return {row.begin(), row.end()}; }

TEST(Sequence, AFullContextIsAValueAndNothingIsLost) {
  Sequence sequence(plain(), 4);
  const std::vector<TokenId> three = {1, 2, 3}, two = {4, 5};
  ASSERT_EQ(sequence.append(three), AppendStatus::kDone);
  const std::vector<float> before = copy(sequence.logits());
  EXPECT_EQ(sequence.append(two), AppendStatus::kContextFull);
  EXPECT_EQ(sequence.length(), 3);
  EXPECT_EQ(copy(sequence.logits()), before);
  EXPECT_EQ(sequence.append({two.data(), 1}), AppendStatus::kDone);
}

TEST(Sequence, AFailedRunLeavesNoTrace) {
  Sequence sequence(plain(), 0);
  const std::vector<TokenId> good = {1, 2, 3}, bad = {4, 1 << 20};
  ASSERT_EQ(sequence.append(good), AppendStatus::kDone);
  const std::vector<float> before = copy(sequence.logits());
  EXPECT_THROW((void)sequence.append(bad), Error);
  EXPECT_EQ(sequence.length(), 3);
  EXPECT_EQ(copy(sequence.logits()), before);
}

TEST(Sequence, ACancelledPromptLeavesNoTrace) {
  Sequence sequence(plain(), 0);
  const std::vector<TokenId> tokens = {1, 2, 3};
  EXPECT_EQ(sequence.append(tokens, {nullptr, [] { return true; }}), AppendStatus::kCancelled);
  EXPECT_EQ(sequence.length(), 0);
}

TEST(Sequence, LogitsBeforeTheFirstTokenAreAnError) {
  Sequence sequence(plain(), 0);
  EXPECT_THAT([&] { (void)sequence.logits(); }, testing::ThrowsMessage<Error>(testing::HasSubstr("append at least one token first")));
}

TEST(Sequence, LogitsAfterARewindAreThoseOfTheTokenBefore) {
  Sequence sequence(plain(), 0);
  const std::vector<TokenId> tokens = {1, 2, 3};
  ASSERT_EQ(sequence.append({tokens.data(), 2}), AppendStatus::kDone);
  const std::vector<float> at_two = copy(sequence.logits());
  ASSERT_EQ(sequence.append({tokens.data() + 2, 1}), AppendStatus::kDone);
  sequence.rewind(2);
  EXPECT_EQ(sequence.length(), 2);
  EXPECT_THAT(copy(sequence.logits()), testing::Pointwise(testing::FloatNear(1e-5f), at_two));
}

// Pages behind a window are kept as long as keep() may make them visible again.
TEST(Sequence, AShortPathOfADeepTreeIsKeptWithoutComputingAgain) {
  const std::shared_ptr<backend::Backend> backend = testing_support::open_native(testing_support::fixtures() / "rules" / "window");
  std::vector<TokenId> tokens, deep(20, 3);
  for (int i = 0; i < 34; ++i) tokens.push_back(i % 24);
  std::vector<int> parents;
  for (int i = 0; i < 20; ++i) parents.push_back(i - 1);
  Sequence sequence(backend, 0), alone(backend, 0);
  ASSERT_EQ(sequence.append(tokens), AppendStatus::kDone);
  Tree tree;
  ASSERT_EQ(tree.compute(sequence, deep, parents), AppendStatus::kDone);
  tree.keep(0, sequence);
  sequence.push(5);
  EXPECT_FALSE(sequence.must_restart());
  sequence.drop_pending();
  tokens.insert(tokens.end(), {3, 5});
  ASSERT_EQ(sequence.append({tokens.data() + 35, 1}), AppendStatus::kDone);
  ASSERT_EQ(alone.append(tokens), AppendStatus::kDone);
  EXPECT_EQ(copy(sequence.logits()), copy(alone.logits()));
}

TEST(Sequence, ThousandsOfForksShareOnePast) {
  Sequence trunk(plain(), 0);
  const std::vector<TokenId> tokens = {1, 2, 3};
  ASSERT_EQ(trunk.append(tokens), AppendStatus::kDone);
  std::vector<Sequence> branches;
  for (int i = 0; i < 5000; ++i) branches.push_back(trunk.fork());
  const TokenId next = 7;
  ASSERT_EQ(branches[4321].append({&next, 1}), AppendStatus::kDone);
  EXPECT_EQ(branches[4322].length(), 3);
  EXPECT_EQ(copy(branches[4322].logits()), copy(trunk.logits()));
}

TEST(Sequence, ScoringSeesTheRowOfEveryToken) {
  const std::shared_ptr<backend::Backend> backend = plain();
  const std::vector<TokenId> tokens = {5, 9, 2, 11};
  std::vector<std::vector<float>> seen;
  Sequence whole(backend, 0);
  ASSERT_EQ(whole.append_and_see(tokens, [&](int, std::span<const float> row) { seen.push_back(copy(row)); }), AppendStatus::kDone);
  ASSERT_EQ(seen.size(), 4u);
  Sequence stepwise(backend, 0);
  for (size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_EQ(stepwise.append({&tokens[i], 1}), AppendStatus::kDone);
    EXPECT_THAT(copy(stepwise.logits()), testing::Pointwise(testing::FloatNear(1e-4f), seen[i])) << i;
  }
}

}  // namespace
}  // namespace kvik::engine
