#include <gtest/gtest.h>

#include "base/core_sharing.h"
#include "base/thread_cpu.h"

namespace kvik {
namespace {

using Break = CoreSharing::Break;

constexpr int64_t kItem = 20'000, kSlice = 4'000'000;

// A helper that runs items one after another on a core that another program may want too: then the scheduler takes turns.
struct SimulatedCore {
  bool has_neighbor = false;
  CoreSharing sharing{};
  int64_t now = 1'000'000'000, slice_left = kSlice;
  int n_switches = 0, n_items = 0, n_items_interrupted = 0, n_yields = 0, n_naps = 0;

  void run_item() {
    ++n_items;
    slice_left -= kItem;
    now += kItem;
    if (has_neighbor && slice_left <= 0) {
      ++n_items_interrupted;
      lose_core();
    }
    if (sharing.is_on()) take(sharing.after_item(now, [this] { return n_switches; }));
  }

  void run_for(int64_t ns) {
    for (const int64_t end = now + ns; now < end;) run_item();
  }

 private:
  void take(Break next) {
    if (next == Break::kNone) return;
    (next == Break::kYield ? n_yields : n_naps)++;
    const int64_t begin = now;
    if (has_neighbor) lose_core();
    now += next == Break::kNap ? CoreSharing::kNap : 400;
    sharing.took_break(begin, now, n_switches);
  }

  void lose_core() {
    now += kSlice;
    slice_left = kSlice;
    ++n_switches;
  }
};

TEST(CoreSharing, TakesNoBreakBeforeAJobIsLate) {
  SimulatedCore core{.has_neighbor = true};
  core.run_for(500'000'000);
  EXPECT_EQ(core.n_yields + core.n_naps, 0);
  EXPECT_GT(core.n_items_interrupted, 50);
}

TEST(CoreSharing, ANeighborGetsTheCoreBetweenItemsAndNotInsideThem) {
  SimulatedCore core{.has_neighbor = true};
  core.sharing.job_was_late(core.now);
  core.run_for(1'000'000'000);
  EXPECT_EQ(core.n_items_interrupted, 0);
  EXPECT_EQ(core.n_yields, 1);  // which found the neighbor
  EXPECT_GT(core.n_naps, 100);
  EXPECT_TRUE(core.sharing.is_on());
}

TEST(CoreSharing, ATrialThatFindsNobodyEndsAndTheNextOneWaits) {
  SimulatedCore core;
  core.sharing.job_was_late(core.now);
  core.run_for(2 * CoreSharing::kTrial);
  EXPECT_FALSE(core.sharing.is_on());
  EXPECT_LE(core.n_yields, CoreSharing::kTrial / CoreSharing::kRun);
  EXPECT_EQ(core.n_naps, 0);
  core.sharing.job_was_late(core.now);
  EXPECT_FALSE(core.sharing.is_on());
  core.run_for(CoreSharing::kPause);
  core.sharing.job_was_late(core.now);
  EXPECT_TRUE(core.sharing.is_on());
}

TEST(CoreSharing, LateJobsOnAQuietMachineCostLessThanAThousandth) {
  SimulatedCore core;
  const int64_t begin = core.now;
  for (int i = 0; i < 1000; ++i) {
    core.sharing.job_was_late(core.now);
    core.run_for(10'000'000);
  }
  EXPECT_LT(static_cast<double>(core.n_items) * kItem, static_cast<double>(core.now - begin));
  EXPECT_GT(static_cast<double>(core.n_items) * kItem, 0.999 * static_cast<double>(core.now - begin));
}

TEST(CoreSharing, EndsSoonAfterTheNeighborHasGone) {
  SimulatedCore core{.has_neighbor = true};
  core.sharing.job_was_late(core.now);
  core.run_for(100'000'000);
  core.has_neighbor = false;
  core.run_for(CoreSharing::kMemory + 2 * CoreSharing::kRun);
  EXPECT_FALSE(core.sharing.is_on());
  const int n_naps = core.n_naps;
  core.run_for(100'000'000);
  EXPECT_EQ(core.n_naps, n_naps);
}

TEST(CoreSharing, AfterAPreemptionTheThreadUsesItsNewTimeSlice) {
  CoreSharing sharing;
  sharing.job_was_late(0);
  int64_t now = CoreSharing::kRun - 1;
  EXPECT_EQ(sharing.after_item(now, [] { return 0; }), Break::kNone);
  now += kSlice;
  EXPECT_EQ(sharing.after_item(now, [] { return 1; }), Break::kNone);
  EXPECT_EQ(sharing.after_item(now + CoreSharing::kRun, [] { return 1; }), Break::kYield);
}

TEST(CoreSharing, ALongItemIsFollowedByABreak) {
  CoreSharing sharing;
  sharing.job_was_late(0);
  EXPECT_EQ(sharing.after_item(2 * CoreSharing::kRun, [] { return 0; }), Break::kYield);
}

TEST(CoreSharing, NothingIsKnownOfTheCoreAfterATimeWithoutJobs) {
  SimulatedCore core{.has_neighbor = true};
  core.sharing.job_was_late(core.now);
  core.run_for(100'000'000);
  core.sharing.end_if_over(core.now);
  EXPECT_TRUE(core.sharing.is_on());
  core.sharing.end_if_over(core.now + CoreSharing::kMemory + kSlice);
  EXPECT_FALSE(core.sharing.is_on());
}

cpu_set_t own_cpus() {
  cpu_set_t cpus;
  EXPECT_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
  return cpus;
}

void set_cpus(const cpu_set_t& cpus) { EXPECT_EQ(sched_setaffinity(0, sizeof(cpus), &cpus), 0); }

class AvoidedCpuTest : public testing::Test {
 protected:
  AvoidedCpuTest() : before_(own_cpus()) {}
  ~AvoidedCpuTest() override { set_cpus(before_); }

  const cpu_set_t before_;
};

TEST_F(AvoidedCpuTest, TheThreadLeavesTheCpuAndMayReturnLater) {
  if (CPU_COUNT(&before_) < 2) GTEST_SKIP() << "this process may use one CPU";
  AvoidedCpu avoided;
  for (int i = 0; i < 3; ++i) {
    const int cpu = current_cpu();
    avoided.avoid(cpu);
    EXPECT_NE(current_cpu(), cpu);
    const cpu_set_t now = own_cpus();
    EXPECT_EQ(CPU_COUNT(&now), CPU_COUNT(&before_) - 1);
  }
  avoided.stop();
  const cpu_set_t after = own_cpus();
  EXPECT_TRUE(CPU_EQUAL(&after, &before_));
}

TEST_F(AvoidedCpuTest, TheOnlyCpuIsNotAvoided) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(current_cpu(), &only);
  set_cpus(only);
  AvoidedCpu avoided;
  avoided.avoid(current_cpu());
  EXPECT_FALSE(avoided.is_on());
  for (const int cpu : {-1, CPU_SETSIZE, 1 << 30}) avoided.avoid(cpu);
  EXPECT_FALSE(avoided.is_on());
  const cpu_set_t after = own_cpus();
  EXPECT_TRUE(CPU_EQUAL(&after, &only));
}

TEST_F(AvoidedCpuTest, CpusThatOthersHaveSetMeanwhileStay) {
  if (CPU_COUNT(&before_) < 2) GTEST_SKIP() << "this process may use one CPU";
  AvoidedCpu avoided;
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  const int cpu = current_cpu();
  CPU_SET(cpu, &chosen);
  avoided.avoid(cpu);
  EXPECT_TRUE(avoided.is_on());
  set_cpus(chosen);
  avoided.stop();
  const cpu_set_t after = own_cpus();
  EXPECT_TRUE(CPU_EQUAL(&after, &chosen));
}

}  // namespace
}  // namespace kvik
