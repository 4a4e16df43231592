// Proposals change how many runs it takes, and nothing else: after every step the sequence is what it is without them, bit for bit.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/draft.h"
#include "engine/lookup.h"
#include "engine/proposers.h"
#include "engine/sample_strategy.h"
#include "engine/tree.h"
#include "kvik/error.h"
#include "support/models.h"
#include "support/paths.h"

namespace kvik::engine {
namespace {

using backend::Cache;
using backend::Row;
using testing_support::BranchingProposer;
using testing_support::ScriptedProposer;
using testing_support::speculation_of;
using Tokens = std::vector<TokenId>;

// Counts runs; has no memory for more than `most_rows` and fails on demand.
class WatchedBackend final : public backend::Backend {
 public:
  explicit WatchedBackend(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}

  const backend::Traits& traits() const override { return inner_->traits(); }
  int preferred_chunk() const override { return inner_->preferred_chunk(); }
  std::unique_ptr<Cache> new_cache(std::shared_ptr<const backend::Source> source, int length) override {
    return inner_->new_cache(std::move(source), length);
  }
  bool can_continue(const Cache& cache, int length) const override { return inner_->can_continue(cache, length); }
  std::unique_ptr<Cache> fork(const Cache& cache) override { return inner_->fork(cache); }
  void fork_into(const Cache& cache, std::unique_ptr<Cache>& copy) override { inner_->fork_into(cache, copy); }
  void rewind(Cache& cache, int length) override { inner_->rewind(cache, length); }
  backend::RunStatus run(std::span<const Row> rows, std::span<Cache* const> caches, backend::Logits& logits) override {
    if (fails) throw Error(Code::kInternal, "fails as the test asks");
    if (rows.size() > most_rows) return backend::RunStatus::kNoMemory;
    ++n_runs;
    n_rows += static_cast<int>(rows.size());
    for (const Row& row : rows) longest = std::max(longest, row.position + 1);
    return inner_->run(rows, caches, logits);
  }
  std::unique_ptr<Cache> find_prefix(const TokenView& tokens, int length) override { return inner_->find_prefix(tokens, length); }
  void share_prefix(Cache& cache, const TokenView& tokens, bool whole) override { inner_->share_prefix(cache, tokens, whole); }
  void find_continuation(std::span<const TokenId> tokens, size_t n, Tokens& found) override { inner_->find_continuation(tokens, n, found); }
  std::vector<Tensor> contents(const Cache& cache) override { return inner_->contents(cache); }
  std::unique_ptr<Cache> restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) override {
    return inner_->restore(tokens, contents);
  }
  std::vector<std::shared_ptr<const backend::Source>> encode(std::span<const Tensor> inputs) override { return inner_->encode(inputs); }

  int n_runs = 0, n_rows = 0, longest = 0;
  size_t most_rows = 1000;
  bool fails = false;

 private:
  std::shared_ptr<Backend> inner_;
};

struct State {
  Tokens tokens, all_tokens;
  std::vector<float> logits;
  bool operator==(const State&) const = default;
};

State state_of(const Stream& stream) {
  const Sequence& sequence = stream.branches.front();
  return {{sequence.tokens().begin(), sequence.tokens().end()},
          {sequence.all_tokens().begin(), sequence.all_tokens().end()},
          {sequence.known_logits().begin(), sequence.known_logits().end()}};
}

class SpeculationTest : public testing::TestWithParam<std::string> {
 protected:
  static constexpr size_t kPrompt = 5;

  std::shared_ptr<WatchedBackend> backend_ =
      std::make_shared<WatchedBackend>(testing_support::open_native(testing_support::source_root() / GetParam()));
  std::shared_ptr<Decoder> decoder_ = std::make_shared<Decoder>(backend_);
  Sampling sampling_;
  // Over the end of a page of 32 positions, if the model has so many.
  size_t max_length_ = std::min<size_t>(60, static_cast<size_t>(backend_->traits().max_positions));
  int context_ = 0;
  bool share_ = false;

  Tokens prompt(int seed = 0) const {
    Tokens tokens;
    for (size_t i = 0; i < kPrompt; ++i) tokens.push_back(static_cast<TokenId>((i * 7 + 3 + static_cast<size_t>(seed)) % 24));
    return tokens;
  }

  Stream stream(const Tokens& prompt) const {
    const auto sampler =
        std::make_shared<sample::Sampler>(sampling_, sample::TokenRules{static_cast<size_t>(backend_->traits().vocab), {}, {}});
    SampleOptions options{.stop = {{}, max_length_, nullptr}, .prompt_length = prompt.size(), .scores = false, .seed = 11};
    Stream result(Sequence(decoder_, context_), std::make_unique<SampleStrategy>(sampler, options));
    if (share_) result.branches.front().reuse_prefixes();
    for (const TokenId token : prompt) result.branches.front().push(token);
    return result;
  }
  Stream stream(std::unique_ptr<Proposer> proposer, size_t most_tokens = 4, int seed = 0) const {
    Stream result = stream(prompt(seed));
    result.speculation = speculation_of(std::move(proposer), {.max_length = max_length_, .most_tokens = most_tokens, .adapt = false});
    return result;
  }

  // The states after each step that chose a token.
  std::vector<State> run(Stream& stream, const std::function<void(Stream&)>& between = nullptr) {
    std::vector<State> states;
    Stream* const alone[] = {&stream};
    for (int n_before = 0; !stream.finish; n_before = stream.timing.n_generated) {
      EXPECT_EQ(decoder_->step(alone), StepStatus::kWorked);
      if (stream.timing.n_generated == n_before) continue;
      states.push_back(state_of(stream));
      if (between) between(stream);
    }
    EXPECT_EQ(stream.error, nullptr);
    return states;
  }
  std::vector<State> plain(int seed = 0) {
    Stream without = stream(prompt(seed));
    return run(without);
  }
  // Everything that is generated.
  Tokens whole(int seed = 0) {
    Stream without = stream(prompt(seed));
    run(without);
    Tokens all(without.branches.front().all_tokens().begin(), without.branches.front().all_tokens().end());
    all.push_back(without.strategy->targets().front().ids.back());
    return all;
  }

  std::unique_ptr<Proposer> right() {
    return std::make_unique<ScriptedProposer>(whole(), [](size_t, TokenId token) { return token; });
  }
  std::unique_ptr<Proposer> wrong(size_t every = 1) {
    const int vocab = backend_->traits().vocab;
    return std::make_unique<ScriptedProposer>(whole(),
                                              [=](size_t i, TokenId token) { return i % every == 0 ? (token + 1) % vocab : token; });
  }
  std::vector<std::pair<std::string, std::unique_ptr<Proposer>>> proposers() {
    std::vector<std::pair<std::string, std::unique_ptr<Proposer>>> all;
    all.emplace_back("right", right());
    for (const size_t every : {1, 2, 3, 7}) all.emplace_back(fmt::format("wrong at every position % {}", every), wrong(every));
    all.emplace_back("lookup", std::make_unique<LookupProposer>(backend_, max_length_));
    all.emplace_back("draft", std::make_unique<DraftProposer>(decoder_, context_, backend_->traits().vocab, false));
    return all;
  }

  void expect_as_plain(const std::string& what) {
    const std::vector<State> expected = plain();
    for (auto& [name, proposer] : proposers()) {
      Stream with = stream(std::move(proposer));
      const std::vector<State> found = run(with);
      ASSERT_EQ(found.size(), expected.size()) << what << ", " << name;
      for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], expected[i]) << what << ", " << name << ", step " << i;
      EXPECT_EQ(with.timing.n_decoded, with.timing.n_accepted + with.timing.n_runs) << what << ", " << name;
    }
  }
};

TEST_P(SpeculationTest, EveryStepEqualsOneWithoutProposals) {
  expect_as_plain("greedy");
  sampling_ = {.temperature = 1.0};
  expect_as_plain("sampled");
  sampling_ = {.temperature = 0.9, .top_k = 9, .repetition_penalty = 1.3, .presence_penalty = 0.4, .no_repeat_ngram_size = 3};
  expect_as_plain("sampled with penalties");
  sampling_ = {.repetition_penalty = 1.2, .frequency_penalty = 0.3, .no_repeat_ngram_size = 2};
  expect_as_plain("greedy with penalties");
}

TEST_P(SpeculationTest, NothingIsComputedBeyondTheContextOrTheLengthLimit) {
  for (const int context : {23, 24, 25}) {
    context_ = context;
    backend_->longest = 0;
    expect_as_plain(fmt::format("a context of {}", context));
    EXPECT_EQ(backend_->longest, context);
  }
  context_ = 0;
  max_length_ = 30;
  backend_->longest = 0;
  expect_as_plain("a limit of 30");
  EXPECT_EQ(backend_->longest, 29);
}

TEST_P(SpeculationTest, RightProposalsSaveRunsAndWrongOnesAreNeverAccepted) {
  Stream good = stream(right());
  backend_->n_runs = 0;
  run(good);
  EXPECT_LE(backend_->n_runs, 3 + static_cast<int>(max_length_ - kPrompt + 4) / 5);
  EXPECT_EQ(good.timing.n_accepted, good.timing.n_proposed);
  Stream bad = stream(wrong());
  run(bad);
  EXPECT_EQ(bad.timing.n_accepted, 0);
  EXPECT_EQ(bad.timing.n_runs, static_cast<int>(max_length_ - kPrompt) - 1);
  EXPECT_GT(bad.timing.n_proposed, 2 * bad.timing.n_runs);
}

TEST_P(SpeculationTest, StreamsThatStepTogetherEqualThoseAlone) {
  std::vector<Stream> streams;
  std::vector<std::vector<State>> expected;
  int seed = 0;
  for (auto& [name, proposer] : proposers()) {
    expected.push_back(plain(seed));
    streams.push_back(stream(std::move(proposer), 4, seed++));
  }
  expected.push_back(plain(seed));
  streams.push_back(stream(prompt(seed)));
  std::vector<std::vector<State>> found(streams.size());
  std::vector<Stream*> running;
  for (Stream& one : streams) running.push_back(&one);
  while (!running.empty()) {
    std::vector<int> before;
    for (const Stream* one : running) before.push_back(one->timing.n_generated);
    ASSERT_EQ(decoder_->step(running), StepStatus::kWorked);
    for (size_t i = 0; i < running.size(); ++i) {
      if (running[i]->timing.n_generated > before[i])
        found[static_cast<size_t>(running[i] - streams.data())].push_back(state_of(*running[i]));
    }
    std::erase_if(running, [](const Stream* one) { return one->finish.has_value(); });
  }
  for (size_t i = 0; i < streams.size(); ++i) EXPECT_EQ(found[i], expected[i]) << "stream " << i;
}

// Whatever looks at the sequence between two steps sees chosen tokens only.
TEST_P(SpeculationTest, ForksContentsAndTreesInTheMiddleSeeOnlyWhatWasChosen) {
  const std::vector<State> expected = plain();
  const auto logits_after = [&](std::span<const TokenId> tokens) {
    Sequence fresh(decoder_, 0);
    EXPECT_EQ(fresh.append(tokens), AppendStatus::kDone);
    return std::vector<float>(fresh.logits().begin(), fresh.logits().end());
  };
  const TokenId other = 1;
  for (const int what : {0, 1, 2, 3}) {
    Stream with = stream(wrong(3));
    size_t step = 0;
    run(with, [&](Stream& stream) {
      Sequence& sequence = stream.branches.front();
      const Tokens tokens(sequence.tokens().begin(), sequence.tokens().end());
      ASSERT_EQ(state_of(stream), expected[step++]) << what;
      ASSERT_EQ(sequence.length(), static_cast<int>(tokens.size()));
      Tokens longer = tokens;
      longer.push_back(other);
      if (what == 0) {
        Sequence branch = sequence.fork();
        branch.drop_pending();
        EXPECT_EQ(branch.length(), sequence.length());
        EXPECT_EQ(branch.append({&other, 1}), AppendStatus::kDone);
        EXPECT_EQ(std::vector<float>(branch.logits().begin(), branch.logits().end()), logits_after(longer));
      } else if (what == 1) {
        Sequence restored = Sequence::restored(decoder_, 0, tokens, sequence.contents(), sequence.known_logits());
        EXPECT_EQ(restored.append({&other, 1}), AppendStatus::kDone);
        EXPECT_EQ(std::vector<float>(restored.logits().begin(), restored.logits().end()), logits_after(longer));
      } else if (what == 2 && backend_->traits().can_branch && backend_->traits().switch_after == 0) {
        Tree tree;
        const int root = -1;
        EXPECT_EQ(tree.compute(sequence, {&other, 1}, {&root, 1}), AppendStatus::kDone);
        EXPECT_EQ(std::vector<float>(tree.logits(0).begin(), tree.logits(0).end()), logits_after(longer));
      }
    });
    EXPECT_EQ(step, expected.size());
  }
}

TEST_P(SpeculationTest, ARewindInTheMiddleLeavesNoTrace) {
  for (const size_t n_steps : {3, 4, 5, 6, 20}) {
    Stream with = stream(wrong(3));
    Stream* const alone[] = {&with};
    while (with.timing.n_generated < static_cast<int>(n_steps)) ASSERT_EQ(decoder_->step(alone), StepStatus::kWorked);
    Sequence& sequence = with.branches.front();
    const int length = sequence.length();
    sequence.drop_pending();
    ASSERT_EQ(sequence.length(), length);
    sequence.rewind(length - 1);
    const Tokens rest = {7, 3, 9};
    ASSERT_EQ(sequence.append(rest), AppendStatus::kDone);
    Sequence fresh(decoder_, 0);
    ASSERT_EQ(fresh.append(Tokens(sequence.tokens().begin(), sequence.tokens().end())), AppendStatus::kDone);
    EXPECT_EQ(std::vector<float>(sequence.logits().begin(), sequence.logits().end()),
              std::vector<float>(fresh.logits().begin(), fresh.logits().end()));
  }
}

// What a sequence offers to others at any time are positions of tokens that were chosen.
TEST_P(SpeculationTest, NothingThatWasOnlyProposedIsShared) {
  share_ = true;
  const std::vector<State> expected = plain();
  const Tokens all = whole();
  for (const size_t every : {2, 3, 7}) {
    const std::shared_ptr<WatchedBackend> fresh_backend =
        std::make_shared<WatchedBackend>(testing_support::open_native(testing_support::source_root() / GetParam()));
    std::unique_ptr<Proposer> proposer = wrong(every);
    decoder_ = std::make_shared<Decoder>(fresh_backend);
    Stream with = stream(std::move(proposer), 15);
    size_t step = 0;
    run(with, [&](Stream& stream) {
      ASSERT_EQ(state_of(stream), expected[step]);
      if (step % 5 == 0) stream.branches.front().share_prefix(true);
      Tokens found;
      fresh_backend->find_continuation(prompt(), 32, found);
      const Tokens& tokens = expected[step].tokens;
      ASSERT_LE(kPrompt + found.size(), tokens.size());
      EXPECT_TRUE(std::equal(found.begin(), found.end(), tokens.begin() + kPrompt));
      const std::unique_ptr<Cache> known = fresh_backend->find_prefix(all, static_cast<int>(max_length_));
      EXPECT_LE(known != nullptr ? known->length() : 0, static_cast<int>(tokens.size()));
      ++step;
    });
    EXPECT_EQ(step, expected.size());
    decoder_ = std::make_shared<Decoder>(backend_);
  }
}

TEST_P(SpeculationTest, WithoutMemoryForProposalsTheStepRunsWithoutThem) {
  const std::vector<State> expected = plain();
  std::unique_ptr<Proposer> proposer = right();
  Stream with = stream(std::move(proposer));
  Stream* const alone[] = {&with};
  ASSERT_EQ(decoder_->step(alone), StepStatus::kWorked);
  backend_->most_rows = 1;
  for (size_t i = 1; i < 6; ++i) {
    ASSERT_EQ(decoder_->step(alone), StepStatus::kWorked);
    EXPECT_EQ(state_of(with), expected[i]);
  }
  EXPECT_EQ(with.timing.n_proposed, 0);
  backend_->most_rows = 0;
  EXPECT_EQ(decoder_->step(alone), StepStatus::kNoMemory);
  EXPECT_EQ(state_of(with), expected[5]);
  backend_->most_rows = 1000;
  for (size_t i = 6; i < expected.size(); ++i) {
    ASSERT_EQ(decoder_->step(alone), StepStatus::kWorked);
    EXPECT_EQ(state_of(with), expected[i]);
  }
  EXPECT_GT(with.timing.n_accepted, 0);
}

TEST_P(SpeculationTest, ASecondContinuationIsTakenIfTheFirstIsWrong) {
  const std::vector<State> expected = plain();
  for (const size_t branch : {0, 1, 3}) {
    Stream with = stream(std::make_unique<BranchingProposer>(whole(), branch), 5);
    EXPECT_EQ(run(with), expected) << branch;
    EXPECT_LT(with.timing.n_runs, static_cast<int>(expected.size() / 2)) << branch;
    EXPECT_EQ(with.timing.n_runs + with.timing.n_accepted, static_cast<int>(expected.size()) - 1) << branch;
  }
}

TEST_P(SpeculationTest, AForkDoesNotSeeASecondContinuation) {
  const std::vector<State> expected = plain();
  Stream with = stream(std::make_unique<BranchingProposer>(whole(), 1), 5);
  size_t step = 0;
  run(with, [&](Stream& stream) {
    Sequence fork = stream.branches.front().fork();
    EXPECT_EQ(Tokens(fork.all_tokens().begin(), fork.all_tokens().end()), expected[step].all_tokens);
    fork.drop_pending();
    const std::vector<float> logits(fork.logits().begin(), fork.logits().end());
    EXPECT_EQ(logits, expected[step].logits);
    Sequence alone(decoder_, 0);
    const Tokens tokens(fork.tokens().begin(), fork.tokens().end());
    ASSERT_EQ(alone.append(tokens), AppendStatus::kDone);
    const Tokens next = {7};
    ASSERT_EQ(fork.append(next), AppendStatus::kDone);
    ASSERT_EQ(alone.append(next), AppendStatus::kDone);
    EXPECT_TRUE(std::ranges::equal(fork.logits(), alone.logits())) << step;
    ++step;
  });
}

// While one stream takes tokens that are ahead there is no run, so that nothing is chosen from logits that are yet to be computed.
TEST_P(SpeculationTest, ARewoundStreamBesideOneThatIsAheadGetsItsLogitsFirst) {
  const Tokens expected = whole();
  Stream ahead = stream(right()), rewound = stream(prompt());
  std::unique_ptr<Strategy> strategy = std::move(rewound.strategy);
  rewound.branches.front().push(1);
  ASSERT_EQ(decoder_->compute(rewound), AppendStatus::kDone);
  rewound.branches.front().rewind(static_cast<int>(kPrompt));
  Stream* const alone[] = {&ahead};
  while (!ahead.branches.front().next_is_ahead()) ASSERT_EQ(decoder_->step(alone), StepStatus::kWorked);
  rewound.strategy = std::move(strategy);
  Stream* const both[] = {&ahead, &rewound};
  while (!ahead.finish || !rewound.finish) ASSERT_EQ(decoder_->step(both), StepStatus::kWorked);
  for (const Stream* stream : both) {
    EXPECT_EQ(stream->error, nullptr);
    EXPECT_TRUE(std::ranges::equal(stream->branches.front().all_tokens(), std::span(expected).first(expected.size() - 1)));
  }
}

// Pages behind a window are kept as long as a rejection could make them visible again.
TEST_P(SpeculationTest, ARejectionRecomputesNothing) {
  const std::vector<State> expected = plain();
  const int n_plain = std::exchange(backend_->n_rows, 0);
  Stream with = stream(wrong());
  backend_->n_rows = 0;
  EXPECT_EQ(run(with), expected);
  EXPECT_GT(with.timing.n_proposed, 3 * static_cast<int>(expected.size() - 8));
  EXPECT_EQ(backend_->n_rows, n_plain + with.timing.n_proposed);
}

TEST_P(SpeculationTest, AFailedRunLeavesNoTrace) {
  const std::vector<State> expected = plain();
  Stream with = stream(wrong(3));
  Stream* const alone[] = {&with};
  for (size_t i = 0; i < expected.size(); ++i) {
    const int n_before = with.timing.n_generated;
    const State before = state_of(with);
    backend_->fails = i > 0;
    try {
      ASSERT_EQ(decoder_->step(alone), StepStatus::kWorked);
    } catch (const Error&) { EXPECT_EQ(state_of(with), before); }
    backend_->fails = false;
    if (with.timing.n_generated == n_before) { ASSERT_EQ(decoder_->step(alone), StepStatus::kWorked); }
    ASSERT_EQ(state_of(with), expected[i]);
  }
}

// The last one sees a window of 6 positions.
INSTANTIATE_TEST_SUITE_P(Models, SpeculationTest,
                         testing::Values("models/fable", "tests/fixtures/forms/half-cache", "tests/fixtures/forms/length-switch",
                                         "tests/fixtures/rules/window"),
                         [](const auto& test) { return testing_support::test_name_of(test.param.substr(test.param.rfind('/') + 1)); });

}  // namespace
}  // namespace kvik::engine
