// Past a length switch all positions are others, and a rewound window has lost some: the engine computes such sequences again from their
// tokens, once, and a failure in the middle changes nothing.
#include <gmock/gmock.h>

#include "engine/decoder.h"
#include "kvik/error.h"
#include "support/models.h"

namespace kvik::engine {
namespace {

using backend::Cache;
using backend::Source;

constexpr int kSwitch = 16;  // of the form length-switch

// Takes small chunks, counts rows and fails on demand.
class SmallChunks final : public backend::Backend {
 public:
  explicit SmallChunks(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}

  const backend::Traits& traits() const override { return inner_->traits(); }
  int preferred_chunk() const override { return 4; }
  std::unique_ptr<Cache> new_cache(std::shared_ptr<const Source> source, int length) override {
    return inner_->new_cache(std::move(source), length);
  }
  bool can_continue(const Cache& cache, int length) const override { return inner_->can_continue(cache, length); }
  std::unique_ptr<Cache> fork(const Cache& cache) override { return inner_->fork(cache); }
  void rewind(Cache& cache, int length) override { inner_->rewind(cache, length); }
  backend::RunStatus run(std::span<const backend::Row> rows, std::span<Cache* const> caches, backend::Logits& logits) override {
    if (std::ranges::any_of(rows, [&](const backend::Row& row) { return row.position == fails_at; }))
      throw Error(Code::kInternal, "fails as the test asks");
    n_rows += static_cast<int>(rows.size());
    return inner_->run(rows, caches, logits);
  }
  std::vector<Tensor> contents(const Cache& cache) override { return inner_->contents(cache); }
  std::unique_ptr<Cache> restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) override {
    return inner_->restore(tokens, contents);
  }
  std::vector<std::shared_ptr<const Source>> encode(std::span<const Tensor> inputs) override { return inner_->encode(inputs); }

  int n_rows = 0;
  int fails_at = -1;  // a position

 private:
  std::shared_ptr<Backend> inner_;
};

class LengthSwitch : public testing::TestWithParam<std::string> {
 protected:
  using Tokens = std::vector<TokenId>;
  using LogitsCopy = std::vector<float>;

  static std::shared_ptr<SmallChunks> open(const std::string& form) {
    const std::filesystem::path folder = testing_support::fixtures() / "forms" / form;
    return std::make_shared<SmallChunks>(GetParam() == "native" ? testing_support::open_native(folder)
                                                                : testing_support::open_reference(folder));
  }

  static Tokens tokens(int from, int to) {
    Tokens some;
    for (int i = from; i < to; ++i) some.push_back((i * 7 + 3) % 24);
    return some;
  }

  // After tokens(0, n).
  static Sequence sequence_of(int n, const std::shared_ptr<SmallChunks>& backend) {
    Sequence sequence(backend, 0);
    EXPECT_EQ(sequence.append(tokens(0, n)), AppendStatus::kDone);
    return sequence;
  }
  Sequence sequence_of(int n) const { return sequence_of(n, backend_); }

  void expect_saved_as_rewound(int length) const {
    Sequence sequence = sequence_of(21);
    sequence.rewind(length);
    const auto decoder = std::make_shared<Decoder>(backend_);
    Sequence back = Sequence::restored(decoder, 0, sequence.tokens(), sequence.contents(), {});
    ASSERT_EQ(back.append(tokens(length, length + 2)), AppendStatus::kDone);
    expect_untouched(back, length + 2);
    expect_untouched(sequence, length);
  }

  static LogitsCopy logits_of(Sequence& sequence) { return {sequence.logits().begin(), sequence.logits().end()}; }
  LogitsCopy logits_after(int n) const {
    Sequence sequence = sequence_of(n);
    return logits_of(sequence);
  }

  // Equal bits natively.
  static void expect_same(std::span<const float> found, const LogitsCopy& expected) {
    EXPECT_THAT(LogitsCopy(found.begin(), found.end()),
                testing::Pointwise(testing::FloatNear(GetParam() == "native" ? 0.0f : 1e-5f), expected));
  }

  void expect_untouched(Sequence& sequence, int n) const {
    EXPECT_THAT(sequence.all_tokens(), testing::ElementsAreArray(tokens(0, n)));
    EXPECT_EQ(sequence.length(), n);
    expect_same(sequence.logits(), logits_after(n));
  }

  std::shared_ptr<SmallChunks> backend_ = open("length-switch");
};

TEST_P(LengthSwitch, ALongPromptInChunksIsComputedOnce) {
  Sequence whole = sequence_of(21);
  EXPECT_EQ(backend_->n_rows, 21);
  Sequence stepwise(backend_, 0);
  for (int n = 0; n < 21; ++n) ASSERT_EQ(stepwise.append(tokens(n, n + 1)), AppendStatus::kDone);
  expect_same(stepwise.logits(), logits_of(whole));
}

TEST_P(LengthSwitch, CrossingRecomputesEarlierTokensOnce) {
  const LogitsCopy expected = logits_after(kSwitch + 1);
  Sequence sequence = sequence_of(kSwitch);
  backend_->n_rows = 0;
  ASSERT_EQ(sequence.append(tokens(kSwitch, kSwitch + 1)), AppendStatus::kDone);
  EXPECT_EQ(backend_->n_rows, kSwitch + 1);
  expect_same(sequence.logits(), expected);
  ASSERT_EQ(sequence.append(tokens(0, 1)), AppendStatus::kDone);
  EXPECT_EQ(backend_->n_rows, kSwitch + 2);
}

// It is beyond the switch before and after, but its first chunk alone would not be.
TEST_P(LengthSwitch, APromptAfterARewindIsComputedForItsFinalLength) {
  Sequence sequence = sequence_of(21);
  sequence.rewind(10);
  ASSERT_EQ(sequence.append(tokens(10, 21)), AppendStatus::kDone);
  expect_same(sequence.logits(), logits_after(21));
}

TEST_P(LengthSwitch, AFailedRecomputationLeavesTheSequenceAsItWas) {
  Sequence sequence = sequence_of(kSwitch);
  backend_->fails_at = kSwitch - 2;
  EXPECT_THROW((void)sequence.append(tokens(kSwitch, kSwitch + 1)), Error);
  backend_->fails_at = -1;
  expect_untouched(sequence, kSwitch);
  ASSERT_EQ(sequence.append(tokens(kSwitch, kSwitch + 1)), AppendStatus::kDone);
  expect_same(sequence.logits(), logits_after(kSwitch + 1));
}

TEST_P(LengthSwitch, ACancelledRecomputationLeavesTheSequenceAsItWas) {
  Sequence sequence = sequence_of(kSwitch);
  int n_polls = 0;
  const AppendStatus status = sequence.append(tokens(kSwitch, 30), {nullptr, [&] { return ++n_polls == 3; }});
  EXPECT_EQ(status, AppendStatus::kCancelled);
  expect_untouched(sequence, kSwitch);
}

TEST_P(LengthSwitch, AFailedStepOfSeveralSequencesChangesNoneOfThem) {
  Sequence crosses = sequence_of(kSwitch), stays = sequence_of(3);
  Sequence* const both[] = {&stays, &crosses};
  const Tokens next = {tokens(3, 4).front(), tokens(kSwitch, kSwitch + 1).front()};
  backend_->fails_at = kSwitch;
  EXPECT_THROW((void)Sequence::append_each(both, next), Error);
  backend_->fails_at = -1;
  expect_untouched(crosses, kSwitch);
  expect_untouched(stays, 3);
  ASSERT_EQ(Sequence::append_each(both, next), AppendStatus::kDone);
  expect_untouched(crosses, kSwitch + 1);
  expect_untouched(stays, 4);
}

TEST_P(LengthSwitch, LogitsThatCannotBeRecomputedLoseNoToken) {
  Sequence sequence = sequence_of(21);
  sequence.rewind(kSwitch - 1);
  backend_->fails_at = kSwitch - 2;
  EXPECT_THROW((void)sequence.logits(), Error);
  backend_->fails_at = -1;
  expect_untouched(sequence, kSwitch - 1);
}

TEST_P(LengthSwitch, ScoringSeesOnlyTheNewTokens) {
  Sequence sequence = sequence_of(10);
  std::vector<LogitsCopy> seen;
  const auto see = [&](int i, std::span<const float> row) {
    EXPECT_EQ(static_cast<size_t>(i), seen.size());
    seen.emplace_back(row.begin(), row.end());
  };
  ASSERT_EQ(sequence.append_and_see(tokens(10, 21), see), AppendStatus::kDone);
  ASSERT_EQ(seen.size(), 11u);
  expect_same(seen.back(), logits_after(21));
}

TEST_P(LengthSwitch, ARewoundSequenceIsSavedAsRewound) { expect_saved_as_rewound(10); }

// Graphs drop what leaves the window, and a rewind makes it visible again.
TEST_P(LengthSwitch, ARewoundWindowIsSavedAsRewound) {
  backend_ = open("window-cache");
  expect_saved_as_rewound(15);
}

INSTANTIATE_TEST_SUITE_P(On, LengthSwitch, testing::Values("native", "reference"), [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace kvik::engine
