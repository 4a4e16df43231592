// The algebra of axes: how factors merge, what a row of them is, and how they are dealt out anew by a reshape.
#include <gmock/gmock.h>

#include "backend/native/graph/axes.h"
#include "backend/native/graph/regroup.h"
#include "backend/native/label/rules.h"

namespace kvik::native {
namespace {

using enum Symbol;

const Axis kRows = {factor(kNew)};
const Axis kBatches = {factor(kBatch)};

// The sizes that tell symbols apart, as the compiler uses them.
const std::vector<Sizes> kSizes = {
    {.batch = 2, .fresh = 3, .past = 4}, {.batch = 3, .fresh = 5, .past = 6}, {.batch = 2, .fresh = 4, .past = 9}};

std::optional<Axes> reshaped(const Axes& axes, const std::function<Dims(const Sizes&)>& target) {
  std::vector<Dims> targets;
  for (const Sizes& sizes : kSizes) targets.push_back(target(sizes));
  return regroup(axes, targets, kSizes);
}

TEST(Axes, OnesAreDroppedAndNeighbouringIntegersMerge) {
  EXPECT_EQ(canonical({factor(1), factor(2), factor(3), factor(kNew), factor(4)}), (Axis{factor(6), factor(kNew), factor(4)}));
  EXPECT_EQ(canonical({factor(1)}), Axis{});
}

TEST(Axes, ARowHasTheIntegersOfEachAxis) {
  const Axes axes = {{factor(kBatch), factor(4)}, kRows, {factor(16)}, {factor(kSelection, 2)}};
  EXPECT_EQ(row_dims(axes), (Dims{4, 1, 16, -1}));
  EXPECT_EQ(to_string(axes), "[batch*4, new, 16, chosen2]");
}

TEST(Axes, SizesMultiplyFactors) {
  const Sizes sizes = {.batch = 2, .fresh = 3, .past = 4};
  EXPECT_EQ(sizes.of(Axes{{factor(kBatch), factor(4)}, {factor(kTotal)}, {factor(kTotalAndSink)}}), (Dims{8, 7, 8}));
}

TEST(Axes, BroadcastingTakesEqualListsOnly) {
  const Axes rows = {kBatches, kRows, {factor(8)}};
  EXPECT_EQ(broadcast(std::vector<Axes>{rows, {{factor(8)}}}), rows);
  EXPECT_EQ(broadcast(std::vector<Axes>{rows, {{}, {}}}), rows);
  EXPECT_EQ(broadcast(std::vector<Axes>{rows, {kBatches, {factor(kTotal)}, {}}}), std::nullopt);
  EXPECT_EQ(broadcast(std::vector<Axes>{rows, {{factor(2)}, {}, {}}}), std::nullopt) << "a constant of the size of one batch";
}

TEST(Regroup, HeadsAreSplitFromFeaturesAndMergedAgain) {
  const Axes rows = {kBatches, kRows, {factor(32)}}, heads = {kBatches, kRows, {factor(4)}, {factor(8)}};
  EXPECT_EQ(reshaped(rows, [](const Sizes& s) { return Dims{s.batch, s.fresh, 4, 8}; }), heads);
  EXPECT_EQ(reshaped(heads, [](const Sizes& s) { return Dims{s.batch, s.fresh, 32}; }), rows);
}

TEST(Regroup, BatchesMergeWithWhatStandsBesideThem) {
  const Axes heads = {kBatches, {factor(4)}, kRows, {factor(8)}};
  EXPECT_EQ(reshaped(heads,
                     [](const Sizes& s) {
                       return Dims{s.batch * 4, s.fresh, 8};
                     }),
            (Axes{{factor(kBatch), factor(4)}, kRows, {factor(8)}}));
  EXPECT_EQ(reshaped({kBatches, kRows, {factor(8)}},
                     [](const Sizes& s) {
                       return Dims{s.batch * s.fresh, 8};
                     }),
            (Axes{{factor(kBatch), factor(kNew)}, {factor(8)}}));
}

TEST(Regroup, IntegersAreCutAndSymbolsNever) {
  EXPECT_EQ(reshaped({kBatches, {factor(6)}},
                     [](const Sizes& s) {
                       return Dims{s.batch * 2, 3};
                     }),
            (Axes{{factor(kBatch), factor(2)}, {factor(3)}}));
  EXPECT_EQ(reshaped({kBatches, kRows, {factor(8)}}, [](const Sizes& s) { return Dims{s.fresh, s.batch, 8}; }), std::nullopt);
  EXPECT_EQ(reshaped({kBatches, kRows}, [](const Sizes& s) { return Dims{s.batch * s.fresh / 2, 2}; }), std::nullopt);
}

TEST(Regroup, NothingIsLeftOverOrMissing) {
  EXPECT_EQ(reshaped({kBatches, {factor(8)}}, [](const Sizes& s) { return Dims{s.batch}; }), std::nullopt);
  EXPECT_EQ(reshaped({kBatches}, [](const Sizes& s) { return Dims{s.batch, 2}; }), std::nullopt);
}

}  // namespace
}  // namespace kvik::native
