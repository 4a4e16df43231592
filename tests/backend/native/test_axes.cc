// The algebra of axes: how factors merge, what a row of them is, and how they are dealt out anew by a reshape.
#include <gmock/gmock.h>

#include "backend/native/graph/axes.h"
#include "backend/native/graph/regroup.h"
#include "backend/native/label/rules.h"
#include "backend/native/probe/bisect.h"
#include "backend/native/probe/sizes.h"

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

TEST(Axes, OnesAreDroppedAndNeighboringIntegersMerge) {
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

TEST(Axes, BroadcastingRequiresEqualLists) {
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

TEST(Regroup, BatchesMergeWithAdjacentAxes) {
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

TEST(Regroup, IntegersAreSplitButSymbolsAreNot) {
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

// What sizes.h promises about the three sets of sizes: an axis that is an integer times a symbol is so for one symbol only.
TEST(SizeTriple, NoTripleIsAMultipleOfAnother) {
  using enum native::Symbol;
  for (const bool has_past : {true, false}) {
    native::FlatGraph flat;
    flat.has_past = has_past;
    native::Labels labels;
    labels.flat = &flat;
    std::vector<native::Axis> symbols = {{native::factor(kBatch)},
                                         {native::factor(kNew)},
                                         {native::factor(kSource)},
                                         {native::factor(kTotalAndSink)},
                                         {native::factor(kBatch), native::factor(kNew)}};
    if (has_past) symbols.push_back({native::factor(kPast)});
    if (has_past) symbols.push_back({native::factor(kTotal)});
    const auto triple = native::size_triple(labels);
    for (const native::Axis& a : symbols) {
      for (const native::Axis& b : symbols) {
        if (a == b) continue;
        bool multiple = triple[0].of(a) % triple[0].of(b) == 0;
        for (const native::Sizes& sizes : triple) multiple = multiple && sizes.of(a) == sizes.of(b) * (triple[0].of(a) / triple[0].of(b));
        EXPECT_FALSE(multiple) << native::to_string(a) << " by " << native::to_string(b);
      }
      const bool constant = triple[0].of(a) == triple[1].of(a) && triple[1].of(a) == triple[2].of(a);
      EXPECT_FALSE(constant) << native::to_string(a);
    }
  }
}

TEST(Bisect, FindsTheLastNumberForWhichSomethingHolds) {
  for (const int64_t last : {1, 2, 57, 99}) EXPECT_EQ(native::take(native::bisect(1, 100, [&](int64_t n) { return n <= last; })), last);
}

}  // namespace
}  // namespace kvik::native
