// A stand-in for calls: how long one takes with a number of threads.
#include <functional>
#include <gtest/gtest.h>
#include <map>

#include "backend/native/execute/cpu/thread_choice.h"

namespace kvik::native {
namespace {

using Work = std::function<double(int n_threads)>;

// Calls by number of threads.
std::map<int, int> run(ThreadChoice& choice, int n_calls, const Work& work) {
  std::map<int, int> calls;
  for (int i = 0; i < n_calls; ++i) {
    const int n = choice.n_threads();
    ++calls[n];
    choice.took(work(n));
  }
  return calls;
}

TEST(ThreadChoice, AllThreadsAreKeptIfEachPaysAndTrialsAreFew) {
  ThreadChoice choice(16);
  const std::map<int, int> calls = run(choice, 4000, [](int n) { return 1.0 / n + 0.001; });
  EXPECT_EQ(choice.n_threads(), 16);
  EXPECT_GT(calls.at(16), 3980);
}

TEST(ThreadChoice, FewerAreChosenIfWaitingForThemTakesLonger) {
  ThreadChoice choice(16);
  const Work work = [](int n) { return 1.0 / n + 0.04 * n; };  // best with 4 or 5
  run(choice, 400, work);
  EXPECT_EQ(choice.n_threads(), 4);
  EXPECT_GT(run(choice, 4000, work).at(4), 3900);
}

TEST(ThreadChoice, ABusyNeighborIsNoticedAndItsEndToo) {
  ThreadChoice choice(2);
  const Work idle = [](int n) { return n == 2 ? 0.6 : 1.0; }, busy = [](int n) { return n == 2 ? 1.5 : 1.0; };
  run(choice, 3000, idle);
  EXPECT_EQ(choice.n_threads(), 2);
  run(choice, 20, busy);
  EXPECT_EQ(choice.n_threads(), 1);
  run(choice, 100, idle);
  EXPECT_EQ(choice.n_threads(), 2);
}

TEST(ThreadChoice, GrowingContextsAreNotTakenForANeighbor) {
  ThreadChoice choice(8);
  double seconds = 1.0;
  int n_tried = 0;
  for (int i = 0; i < 3000; ++i, seconds *= 1.001) {
    n_tried += choice.n_threads() < 8 ? 1 : 0;
    choice.took(seconds * 8 / choice.n_threads());
  }
  EXPECT_LT(n_tried, 20);
}

TEST(ThreadChoice, OneThreadIsOneThread) {
  ThreadChoice choice(1);
  EXPECT_EQ(run(choice, 100, [](int) { return 1.0; }).at(1), 100);
}

TEST(ThreadChoice, OtherWorkIsNotComparedWithWhatWasBefore) {
  ThreadChoice choice(2);
  for (int i = 0; i < 40; ++i) {  // long calls, and short ones from the middle of a trial on; each is twice as fast with two threads
    if (i == 25) choice.forget();
    choice.took((i < 25 ? 3.0 : 1.0) / choice.n_threads());
  }
  EXPECT_EQ(choice.n_threads(), 2);
}

}  // namespace
}  // namespace kvik::native
