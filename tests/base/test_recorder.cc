#include <gmock/gmock.h>
#include <thread>

#include "base/json.h"
#include "base/recorder.h"
#include "base/thread_pool.h"
#include "kvik/profile.h"

namespace kvik {
namespace {

TEST(Recorder, AddsUpTheTimeOfEachKind) {
  Profile profile;
  Recorder& recorder = *profile.recorder();
  const int matmul = recorder.kind("matmul"), norm = recorder.kind("norm");
  EXPECT_EQ(recorder.kind("matmul"), matmul);
  const int64_t now = Recorder::now_ns();
  recorder.add(norm, now - 1'000'000, {});
  recorder.add(matmul, now - 5'000'000'000, {.bytes = 100, .multiplications = 7});
  recorder.add(matmul, now - 5'000'000'000, {.bytes = 100, .multiplications = 7});
  const std::vector<OpTime> ops = profile.ops();
  ASSERT_EQ(ops.size(), 2);
  EXPECT_EQ(ops[0].op, "matmul");  // the one that began earlier took longer
  EXPECT_EQ(ops[0].calls, 2);
  EXPECT_EQ(ops[0].bytes, 200);
  EXPECT_EQ(ops[0].multiplications, 14);
  EXPECT_EQ(ops[1].op, "norm");
}

// Two threads that ran an operation side by side for 4,000 seconds.
TEST(Recorder, AnOperationThatThreadsShareCountsAsItsShareOfTheTime) {
  Profile profile(true);
  Recorder& recorder = *profile.recorder();
  const int matmul = recorder.kind("matmul");
  const int64_t began = Recorder::now_ns() - 4'000'000'000'000;
  for (int thread = 0; thread < 2; ++thread) recorder.add_shared(matmul, began, {.bytes = 100}, 2);
  const std::vector<OpTime> ops = profile.ops();
  ASSERT_EQ(ops.size(), 1);
  EXPECT_EQ(ops[0].calls, 2);
  EXPECT_EQ(ops[0].bytes, 200);
  EXPECT_GE(ops[0].seconds, 4000);
  EXPECT_LT(ops[0].seconds, 7000);
  const Json trace = Json::parse(profile.trace());
  for (const auto& event : trace["traceEvents"]) EXPECT_NE(event["ph"], "X") << "it is not a step";
}

TEST(Recorder, KindsThatNeverRanAreNotListed) {
  Profile profile;
  profile.recorder()->kind("matmul");
  EXPECT_THAT(profile.ops(), testing::IsEmpty());
}

TEST(Recorder, TheTraceHasStepsAndWorkers) {
  Profile profile(true);
  Recorder& recorder = *profile.recorder();
  ThreadPool pool(3, &recorder);
  for (int i = 0; i < 3000; ++i) {  // more events than fit a block of memory
    const RecordedScope scope(&recorder, recorder.kind("a \"quoted\" name"));
    pool.for_each(6, [](int64_t) { std::this_thread::yield(); });
  }
  const Json trace = Json::parse(profile.trace());
  int n_steps = 0, n_workers = 0, n_names = 0;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") {
      ++n_names;
      continue;
    }
    EXPECT_EQ(event.at("name"), "a \"quoted\" name");
    EXPECT_GE(event.at("dur"), 0.0);
    ++(event.at("tid") == 0 ? n_steps : n_workers);
  }
  EXPECT_EQ(n_steps, 3000);
  EXPECT_GE(n_workers, 3000);  // at least the caller works in each
  EXPECT_GE(n_names, 2);
}

TEST(Recorder, WithoutATimelineTheTraceIsEmpty) {
  Profile profile;
  Recorder& recorder = *profile.recorder();
  recorder.add(recorder.kind("matmul"), Recorder::now_ns(), {});
  EXPECT_EQ(Json::parse(profile.trace()).at("traceEvents").size(), 1);  // the name of a thread
}

}  // namespace
}  // namespace kvik
