#include <gmock/gmock.h>
#include <numeric>

#include "engine/scripted.h"

namespace kvik::engine {
namespace {

// A machine on which a row of a prompt takes so long.
double last_step(PromptShare& share, double ms_per_row, int n_steps) {
  double ms = 0;
  for (int i = 0; i < n_steps; ++i) share.add_step(ms = static_cast<double>(share.rows()) * ms_per_row);
  return ms;
}

TEST(PromptShare, StepsBecomeAsShortAsRequested) {
  for (const double ms_per_row : {0.2, 1.0, 5.0}) {
    PromptShare share(512, 50);
    EXPECT_LE(last_step(share, ms_per_row, 10), 50) << ms_per_row;
    EXPECT_GE(static_cast<double>(share.rows()) * ms_per_row, 20) << "smaller than needed at " << ms_per_row;
  }
}

TEST(PromptShare, PromptsAreComputedOnTheSlowestMachine) {
  PromptShare share(512, 50);
  last_step(share, 1000, 50);
  EXPECT_GE(share.rows(), 8);
}

TEST(PromptShare, GrowsAgainUpToWhatTheBackendPrefers) {
  PromptShare share(512, 50);
  last_step(share, 10, 20);
  EXPECT_LT(share.rows(), 10);
  last_step(share, 0.01, 50);
  EXPECT_EQ(share.rows(), 512);
  PromptShare small(4, 50);
  last_step(small, 100, 20);
  EXPECT_LE(small.rows(), 4);
}

class SchedulerTest : public testing::Test {
 protected:
  // A scheduler with room for so many sources and positions at a time.
  Scheduler& start(int most_sources = 100, SchedulerLimits limits = {}, int most_positions = INT_MAX) {
    limits.reuse_sources = false;
    scheduler_.reset();
    backend_ = std::make_shared<ScriptedBackend>(log_, most_sources, most_positions);
    decoder_ = std::make_shared<Decoder>(backend_);
    return scheduler_.emplace(decoder_, limits);
  }
  std::shared_ptr<TextsRequest> texts(size_t n_texts, size_t n_rows) const {
    return std::make_shared<TextsRequest>(embedder_, n_texts, n_rows);
  }
  std::shared_ptr<SourcesRequest> sources(size_t n_sources, size_t n_tokens, int64_t n_rows = 3) const {
    return std::make_shared<SourcesRequest>(decoder_, n_sources, n_tokens, n_rows);
  }
  // Of events of a kind: "embed", "encode".
  std::vector<size_t> numbers_of(const std::string& kind) {
    std::vector<size_t> numbers;
    for (const std::string& event : log_.read()) {
      if (event.starts_with(kind + " ")) numbers.push_back(std::stoul(event.substr(kind.size() + 1)));
    }
    return numbers;
  }
  std::vector<size_t> embedded_rows() { return numbers_of("embed"); }
  size_t n_encoded() {
    const std::vector<size_t> numbers = numbers_of("encode");
    return std::accumulate(numbers.begin(), numbers.end(), size_t{0});
  }

  Log log_;
  std::shared_ptr<ScriptedEmbedder> embedder_ = std::make_shared<ScriptedEmbedder>(log_);
  std::shared_ptr<ScriptedBackend> backend_;
  std::shared_ptr<Decoder> decoder_;
  std::optional<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, TextsOfSeveralRequestsRunTogetherAndNoMoreThanFitOneRun) {
  Scheduler& scheduler = start();
  const auto first = texts(1, 1);
  first->open = false;
  scheduler.submit(first);
  std::vector<std::shared_ptr<TextsRequest>> requests;
  for (int i = 0; i < 5; ++i) scheduler.submit(requests.emplace_back(texts(20, 20)));
  first->open = true;
  for (const auto& request : requests) request->wait();
  for (const auto& request : requests) EXPECT_EQ(request->n_embedded, 20u);
  EXPECT_THAT(embedded_rows(), testing::Each(testing::Le(kMostSideRows)));
  EXPECT_LE(embedded_rows().size(), 6u) << "2,000 rows";
}

// However many texts wait, a stream gets a step between two runs of the embedder, and these have few rows if steps shall be short.
TEST_F(SchedulerTest, AStreamIsSteppedBetweenTexts) {
  Scheduler& scheduler = start(100, {.max_step_ms = 1e-6});
  const auto stream = sources(1, 1'000'000);
  scheduler.submit(stream);
  while (stream->n_generated < 2) std::this_thread::yield();
  const auto many = texts(300, 6);
  scheduler.submit(many);
  many->wait();
  stream->cancelled = true;
  stream->wait();
  EXPECT_EQ(many->n_embedded, 300u);
  const std::vector<std::string> events = log_.read();
  for (size_t i = 1; i < events.size(); ++i) EXPECT_FALSE(events[i].starts_with("embed") && events[i - 1].starts_with("embed")) << i;
  size_t n_small = 0;
  for (const size_t rows : embedded_rows()) n_small += rows <= 12 ? 1 : 0;
  EXPECT_GE(n_small, 250u) << "runs did not become smaller";
}

TEST_F(SchedulerTest, SourcesAreEncodedTogetherIfTheyJoinTogether) {
  Scheduler& scheduler = start();
  const auto request = sources(8, 5);
  scheduler.submit(request);
  request->wait();
  EXPECT_EQ(log_.read().front(), "encode 8");
  EXPECT_EQ(request->found, std::vector<size_t>(8, 5));
}

TEST_F(SchedulerTest, ASourceWithoutMemoryWaitsForTheEndOfAnother) {
  Scheduler& scheduler = start(2);
  std::vector<std::shared_ptr<SourcesRequest>> requests;
  for (int i = 0; i < 4; ++i) scheduler.submit(requests.emplace_back(sources(3, 10 + static_cast<size_t>(i))));
  for (size_t i = 0; i < 4; ++i) {
    requests[i]->wait();
    EXPECT_EQ(requests[i]->error, nullptr);
    EXPECT_EQ(requests[i]->found, std::vector<size_t>(3, 10 + i));
  }
  EXPECT_GT(scheduler.load().preempted, 0);
  EXPECT_EQ(backend_->n_sources, 0);
}

// The source is freed with the cache, and the stream goes on behind its last token: every token is drawn once, from its own random number.
TEST_F(SchedulerTest, APreemptedStreamKeepsItsTokens) {
  const auto run = [&](int most_positions) {
    Scheduler& scheduler = start(100, {}, most_positions);
    const size_t n_before = n_encoded();
    const auto request = sources(4, 30);
    scheduler.submit(request);
    request->wait();
    EXPECT_EQ(request->error, nullptr);
    EXPECT_EQ(request->n_generated, 4u * 30u);
    EXPECT_EQ(scheduler.load().preempted > 0, most_positions < 4 * 30);
    EXPECT_EQ(n_encoded() - n_before, 4u + static_cast<size_t>(scheduler.load().preempted)) << "a source that waits is not kept";
    EXPECT_EQ(backend_->n_positions, 0);
    return request->ids;
  };
  const auto expected = run(INT_MAX);
  ASSERT_NE(expected.at(0), expected.at(1)) << "greedy tokens would be chosen again as they were";
  for (const int most_positions : {32, 50, 64, 100}) EXPECT_EQ(run(most_positions), expected) << most_positions;
}

// The first that came is the first that ends: what joined later makes room for it.
TEST_F(SchedulerTest, TheYoungestIsPreempted) {
  Scheduler& scheduler = start(100, {}, 50);
  const auto gate = texts(1, 1);
  gate->open = false;
  scheduler.submit(gate);
  const auto first = sources(1, 40), second = sources(1, 40);
  std::string order;
  first->on_end = [&] { order += "first "; };
  second->on_end = [&] { order += "second "; };
  for (const auto& request : {first, second}) scheduler.submit(request);
  gate->open = true;
  for (const auto& request : {first, second}) request->wait();
  EXPECT_GT(scheduler.load().preempted, 0);
  EXPECT_EQ(order, "first second ");
}

TEST_F(SchedulerTest, APreemptedStreamContinuesWhenAnotherEndsAndNotLater) {
  Scheduler& scheduler = start(100, {}, 27);  // three streams of 9 positions
  const auto gate = texts(1, 1);
  gate->open = false;
  scheduler.submit(gate);
  const auto longest = sources(1, 22), other = sources(1, 10), preempted = sources(1, 10);
  std::string order;
  longest->on_end = [&] { order += "longest "; };
  other->on_end = [&] { order += "other "; };
  preempted->on_end = [&] { order += "preempted "; };
  for (const auto& request : {longest, other, preempted}) scheduler.submit(request);
  gate->open = true;
  for (const auto& request : {longest, other, preempted}) request->wait();
  EXPECT_EQ(scheduler.load().preempted, 1);
  EXPECT_EQ(order, "other preempted longest ");
}

TEST_F(SchedulerTest, ALongPromptIsComputedInChunksWhileAStreamRuns) {
  Scheduler& scheduler = start(100, {.max_step_ms = 0});  // every step is too long
  const auto running = sources(1, 1'000'000), prompt = sources(1, 1);
  prompt->n_prompt = 2000;
  scheduler.submit(running);
  while (running->n_generated == 0) std::this_thread::yield();
  scheduler.submit(prompt);
  prompt->wait();
  running->cancelled = true;
  running->wait();
  EXPECT_GT(backend_->n_prompt_runs, 2000u / 10);
}

TEST_F(SchedulerTest, NoMoreStreamsRunThanAreAllowed) {
  Scheduler& scheduler = start(100, {.max_streams = 3});
  const auto many = sources(10, 5), more = sources(4, 7);
  for (const auto& request : {many, more}) scheduler.submit(request);
  for (const auto& request : {many, more}) request->wait();
  EXPECT_EQ(backend_->most_sources_alive, 3);
}

TEST_F(SchedulerTest, TheQueueHoldsAtMostItsLimit) {
  Scheduler& scheduler = start(100, {.max_waiting = 3});
  const auto gate = texts(1, 1);
  gate->open = false;
  const auto one = sources(1, 2), other = sources(1, 2), refused = sources(1, 2);
  EXPECT_TRUE(scheduler.try_submit(gate));  // waits until it has begun
  EXPECT_TRUE(scheduler.try_submit(one));
  EXPECT_TRUE(scheduler.try_submit(other));
  EXPECT_FALSE(scheduler.try_submit(refused));
  gate->open = true;
  for (const auto& request : {one, other}) request->wait();
  EXPECT_TRUE(scheduler.try_submit(refused));
  refused->wait();
}

TEST_F(SchedulerTest, ASourceThatNeverFitsFailsWithoutAffectingOthers) {
  Scheduler& scheduler = start(0);
  const auto request = sources(1, 5);
  scheduler.submit(request);
  request->wait();
  EXPECT_NE(request->error, nullptr);
}

TEST_F(SchedulerTest, ASourceThatCannotBeEncodedEndsItsOwnRequestOnly) {
  Scheduler& scheduler = start();
  const auto gate = texts(1, 1);
  gate->open = false;
  scheduler.submit(gate);
  const auto good = sources(3, 6), bad = sources(3, 6, 13), other = sources(2, 9);
  for (const auto& request : {good, bad, other}) scheduler.submit(request);
  gate->open = true;
  for (const auto& request : {good, bad, other}) request->wait();
  EXPECT_EQ(good->error, nullptr);
  EXPECT_NE(bad->error, nullptr);
  EXPECT_EQ(good->found, std::vector<size_t>(3, 6));
  EXPECT_EQ(other->found, std::vector<size_t>(2, 9));
  EXPECT_EQ(backend_->n_sources, 0);
}

TEST_F(SchedulerTest, ACancelledRequestFreesItsSourcesWithinOneStep) {
  Scheduler& scheduler = start();
  const auto endless = sources(5, 1'000'000), other = sources(1, 20);
  scheduler.submit(endless);
  while (endless->n_generated < 10) std::this_thread::yield();
  endless->cancelled = true;
  endless->wait();
  EXPECT_EQ(backend_->n_sources, 0);
  EXPECT_EQ(scheduler.load().running, 0u);
  scheduler.submit(other);
  other->wait();
  EXPECT_EQ(other->found, std::vector<size_t>{20});
}

}  // namespace
}  // namespace kvik::engine
