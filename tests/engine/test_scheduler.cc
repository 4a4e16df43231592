#include <gmock/gmock.h>

#include "engine/scheduler.h"

namespace kvik::engine {
namespace {

// A machine on which a row of a prompt takes so long.
double last_step(PromptShare& share, double ms_per_row, int n_steps) {
  double ms = 0;
  for (int i = 0; i < n_steps; ++i) share.add_step(ms = static_cast<double>(share.rows()) * ms_per_row);
  return ms;
}

TEST(PromptShare, StepsBecomeAsShortAsAsked) {
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

}  // namespace
}  // namespace kvik::engine
