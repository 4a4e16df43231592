#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/cpu_features.h"
#include "base/thread_pool.h"

namespace kvik {
namespace {

TEST(ThreadPool, EveryItemIsRunExactlyOnce) {
  for (int n_threads : {1, 2, 3, 5, 8}) {
    ThreadPool pool(n_threads);
    for (int64_t n : {0, 1, 2, 7, 100, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
      pool.for_each(n, [&](int64_t i) { runs[static_cast<size_t>(i)]++; });
      for (const auto& r : runs) EXPECT_EQ(r, 1) << n_threads << " threads, " << n << " items";
    }
  }
}

TEST(ThreadPool, ManySmallJobsLoseNoItem) {
  ThreadPool pool(3);
  int64_t total = 0;
  std::vector<int64_t> values(17);
  for (int job = 0; job < 3000; ++job) {
    pool.for_each(17, [&](int64_t i) { values[static_cast<size_t>(i)] = i + job; });
    total += std::accumulate(values.begin(), values.end(), int64_t{0});
  }
  EXPECT_EQ(total, 3000LL * 136 + 17LL * 2999 * 3000 / 2);
}

TEST(ThreadPool, WritesOfItemsAreVisibleToTheCaller) {
  ThreadPool pool(4);
  std::vector<int> plain(64);
  for (int round = 1; round < 500; ++round) {
    pool.for_each(64, [&](int64_t i) { plain[static_cast<size_t>(i)] = round; });
    for (int value : plain) ASSERT_EQ(value, round);
  }
}

TEST(ThreadPool, JobsOfSeveralCallersRunOneAfterAnother) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum{0};
  int64_t jobs = 0;  // not atomic: item 0 of one job never runs beside item 0 of another
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int job = 0; job < 100; ++job)
        pool.for_each(9, [&](int64_t i) {
          sum += i;
          if (i == 0) ++jobs;
        });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 100 * 36);
  EXPECT_EQ(jobs, 400);
}

TEST(ThreadPool, FewerThreadsShareAJobIfFewerAreUsed) {
  ThreadPool pool(6);
  const auto threads_of_jobs = [&] {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    for (int job = 0; job < 50; ++job) {
      std::vector<std::atomic<int>> runs(13);
      pool.for_each(13, [&](int64_t i) {
        runs[static_cast<size_t>(i)]++;
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      });
      for (const auto& r : runs) EXPECT_EQ(r, 1);
    }
    return static_cast<int>(threads.size());
  };
  for (const int n : {2, 6, 1, 3, 0, 9, 4}) {
    pool.use(n);
    EXPECT_EQ(pool.n_threads(), std::clamp(n, 1, 6));
    EXPECT_EQ(pool.most_threads(), 6);
    int n_tries = 0;  // a thread that is late for an earlier job may still help
    while (threads_of_jobs() > pool.n_threads() && n_tries < 100) ++n_tries;
    EXPECT_LT(n_tries, 100);
  }
}

TEST(ThreadPool, NestedJobsRunOnTheCallingThread) {
  ThreadPool pool(2);
  std::atomic<int> inner{0};
  pool.for_each(4, [&](int64_t) { pool.for_each(5, [&](int64_t) { inner++; }); });
  EXPECT_EQ(inner, 20);
}

TEST(ThreadPool, ExceptionReachesTheCallerAndThePoolStaysUsable) {
  for (int n_threads : {1, 2, 4}) {
    ThreadPool pool(n_threads);
    EXPECT_THROW(pool.for_each(100,
                               [](int64_t i) {
                                 if (i % 10 == 3) throw std::runtime_error("item");
                               }),
                 std::runtime_error);
    std::atomic<int> runs{0};
    pool.for_each(10, [&](int64_t) { runs++; });
    EXPECT_EQ(runs, 10);
  }
}

TEST(ThreadPool, SleepingThreadsWakeForTheNextJob) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 10 * round; ++i) std::this_thread::yield();  // from spinning to asleep
    std::atomic<int> met{0};
    // Each item waits for the other: only two threads can finish the job.
    pool.for_each(2, [&](int64_t) {
      met++;
      while (met < 2) std::this_thread::yield();
    });
    EXPECT_EQ(met, 2);
  }
}

// Threads of other programs that want every core until this is destroyed.
class BusyMachine {
 public:
  BusyMachine() {
    for (int t = 0; t < usable_cores(); ++t)
      threads_.emplace_back([this] {
        while (!stops_.load(std::memory_order_relaxed)) {}
      });
  }
  ~BusyMachine() {
    stops_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stops_{false};
  std::vector<std::thread> threads_;
};

// Waiting for the last item starts a trial in the other threads, which then take breaks.
TEST(ThreadPool, BreaksOfHelpersLoseNoItem) {
  const BusyMachine busy;
  ThreadPool pool(3);
  for (int job = 0; job < 15; ++job) {
    const int64_t n = 2 + job % 7;
    std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
    pool.for_each(n, [&](int64_t i) {
      std::atomic<int> work{0};
      while (i > 0 && work < 300'000) ++work;
      runs[static_cast<size_t>(i)]++;
    });
    for (const auto& r : runs) ASSERT_EQ(r, 1) << "job " << job;
  }
}

TEST(ThreadPool, EndsRightAfterAJobThatSomeThreadsHaveNotSeen) {
  std::atomic<int> n_run = 0;
  for (int i = 0; i < 3000; ++i) {
    ThreadPool pool(2 + i % 7);
    for (int job = 0; job <= i % 3; ++job) pool.for_each(2, [&](int64_t) { ++n_run; });
  }
  EXPECT_EQ(n_run, 2 * 1000 * (1 + 2 + 3));
}

TEST(ThreadPool, RangesCoverEveryItemOnce) {
  ThreadPool pool(3);
  std::vector<int> hits(1003);
  pool.for_ranges(1003, 64, [&](int64_t begin, int64_t end) {
    EXPECT_LE(end - begin, 64);
    for (int64_t i = begin; i < end; ++i) hits[static_cast<size_t>(i)]++;
  });
  for (int h : hits) EXPECT_EQ(h, 1);
}

TEST(CpuFeatures, AnExtensionImpliesItsBase) {
  const CpuFeatures f = detect_cpu_features();
  EXPECT_LE(f.avx512, f.avx2);
  EXPECT_LE(f.avx512_vnni || f.avx512_bf16, f.avx512);
  EXPECT_FALSE(describe(f).empty());
  EXPECT_EQ(describe({}), "none");
  EXPECT_GE(usable_cores(), 1);
}

}  // namespace
}  // namespace kvik
