// The threads that choose tokens.
#include <atomic>
#include <gtest/gtest.h>

#include "engine/workers.h"

namespace kvik::engine {
namespace {

TEST(Workers, CallsInsideOfCallsDoNotDisturbEachOther) {  // under TSan: nothing is written by two of them
  constexpr size_t kManyLogits = size_t{1} << 20;
  ThreadPool pool(4);
  Workers workers(&pool, 16);
  std::atomic<int> n_calls{0};
  workers.for_each(64, kManyLogits, [&](size_t) {
    workers.for_each(4, kManyLogits, [&](size_t) {
      const Workers::Lease workspace(workers);
      ++n_calls;
    });
  });
  EXPECT_EQ(n_calls, 256);
}

}  // namespace
}  // namespace kvik::engine
