#include <gtest/gtest.h>

#include "kvik/error.h"
#include "support.h"

namespace kvik::native::testing_support {
namespace {

TEST(FuseMoves, AMoveOfAMoveIsOneMove) {
  PlanBuilder b(6);
  const Input y = b.unary(Unary::kExp, b.x());
  const Input turned = b.move({y}, {4, 5, 2, 3, 0, 1});
  Plan plan = b.done(b.unary(Unary::kNeg, b.move({turned, b.x()}, {2, 3, 0, 1, 6, 7})));
  fuse_and_compare(fuse_moves, plan);
  EXPECT_EQ(kinds(plan), "unary move unary");
}

TEST(FuseMoves, MovesThatUndoEachOtherVanish) {
  PlanBuilder b(6);
  const Input y = b.unary(Unary::kExp, b.x());
  const Input turned = b.move({y}, {3, 4, 5, 0, 1, 2});
  Plan plan = b.done(b.unary(Unary::kNeg, b.move({turned}, {3, 4, 5, 0, 1, 2})));
  fuse_and_compare(fuse_moves, plan);
  EXPECT_EQ(kinds(plan), "unary unary");
}

TEST(FuseMoves, PartsAreReadInPlace) {
  PlanBuilder b(6);
  const Input y = b.unary(Unary::kExp, b.x());
  const Input turned = b.move({y}, {3, 4, 5, 0, 1, 2});
  Plan plan = b.done(b.mul(b.part(turned, 0, 3), b.part(turned, 3, 3)));
  fuse_and_compare(fuse_moves, plan);
  EXPECT_EQ(kinds(plan), "unary binary");
}

TEST(FuseMoves, PartsOfAConcatenationAreReadFromItsInputs) {
  PlanBuilder b(6);
  const Input turned = b.move({b.x()}, {0, 2, 4, 1, 3, 5}), y = b.unary(Unary::kExp, b.x());
  const Input both = b.move({turned, y}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  Plan plan = b.done(b.add(b.part(both, 0, 6), b.part(both, 6, 6)));
  fuse_and_compare(fuse_moves, plan);
  EXPECT_EQ(kinds(plan), "move unary binary");
}

TEST(FuseMoves, AScatteredPartIsStillMoved) {
  PlanBuilder b(6);
  const Input turned = b.move({b.x()}, {0, 2, 4, 1, 3, 5});
  Plan plan = b.done(b.mul(b.part(turned, 0, 3), b.part(turned, 3, 3)));
  EXPECT_EQ(fuse_and_compare(fuse_moves, plan), 0);
}

TEST(FuseMoves, RepeatedRowsAndElementsAreSpread) {
  PlanBuilder b(6);
  const Input three = b.unary(Unary::kExp, b.part(b.x(), 0, 3)), two = b.unary(Unary::kTanh, b.part(b.x(), 0, 2));
  const Input rows = b.mul(b.x(), b.move({three}, {0, 1, 2, 0, 1, 2}));
  Plan plan = b.done(b.add(rows, b.move({two}, {0, 0, 0, 1, 1, 1})));
  fuse_and_compare(fuse_moves, plan);
  EXPECT_EQ(kinds(plan), "unary unary binary binary");
  EXPECT_EQ(plan.ops[2].as<BinaryOp>()->b, Spread::kEvery);
  EXPECT_EQ(plan.ops[3].as<BinaryOp>()->b, Spread::kPerGroup);
}

TEST(FuseMoves, AMoveThatOthersReadStaysAndIsReadPast) {
  PlanBuilder b(6);
  const Input turned = b.move({b.x()}, {0, 2, 4, 1, 3, 5});
  Plan plan = b.done(b.add(b.move({turned}, {1, 0, 3, 2, 5, 4}), turned));
  EXPECT_EQ(fuse_and_compare(fuse_moves, plan), 1);
  EXPECT_EQ(count(plan, "move"), 2);
  EXPECT_EQ(plan.ops[1].in[0], plan.whole(plan.embedding));
}

TEST(Fuse, APassThatDoesNotExistIsNamed) {
  PlanBuilder b(6);
  Plan plan = b.done(b.unary(Unary::kExp, b.x()));
  const std::vector<std::string> without = {"magic"};
  EXPECT_THROW(fuse(plan, without), Error);
}

TEST(Fuse, APassCanBeTurnedOff) {
  const auto make = [] {
    PlanBuilder b(6);
    return b.done(b.mul(b.x(), b.unary(Unary::kSigmoid, b.x())));
  };
  Plan all = make(), without = make();
  fuse(all, {});
  EXPECT_EQ(kinds(all), "unary");
  EXPECT_EQ(all.fused.at("activation"), 1);
  const std::vector<std::string> names = {"activation", "gate"};
  fuse(without, names);
  EXPECT_EQ(kinds(without), "unary binary");
  EXPECT_FALSE(without.fused.contains("activation"));
}

TEST(Fuse, LongChainsOfAnythingAreFusedInLittleTime) {
  PlanBuilder b(4);
  Input x = b.x();
  for (int i = 0; i < 4000; ++i) {
    const Input scaled = b.mul(x, b.number(1.0001f)), turned = b.move({scaled}, {1, 0, 3, 2});
    x = b.add(b.mul(b.unary(Unary::kNeg, turned), b.unary(Unary::kTanh, turned)), b.number(1e-3f));
  }
  for (int i = 0; i < 4000; ++i) x = b.mul(x, b.constant({1, 2, 1, 0.5f}));
  Plan plan = b.done(x), raw = plan;
  fuse(plan, {});
  const std::vector<std::string> without = {"canonical"};
  fuse(raw, without);
  EXPECT_LT(plan.ops.size(), raw.ops.size());
}

TEST(Fuse, UnusedWeightsAndConstantsAreNotLoaded) {
  PlanBuilder b(8);
  const int table = b.table(8, [](int64_t, int64_t) { return 1.0f; });
  b.mul(b.x(), b.table_input(table));
  const Input kept = b.matmul(b.x(), 4, b.constant({1, 2, 3, 4}));
  b.matmul(b.x(), 4);
  Plan plan = b.done(kept);
  plan.drop_unused();
  fuse(plan, {});
  EXPECT_EQ(plan.tables.size(), 0u);
  EXPECT_EQ(plan.weights.size(), 1u);
  EXPECT_EQ(plan.constants.size(), 1u);
}

}  // namespace
}  // namespace kvik::native::testing_support
