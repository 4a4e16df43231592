#include <gtest/gtest.h>

#include "support.h"

namespace kvik::native::testing_support {
namespace {

TEST(FuseCanonical, SquaresHaveOneForm) {
  PlanBuilder b(6);
  const Input by_product = b.mul(b.x(), b.x()), by_power = b.binary(Binary::kPow, b.x(), b.number(2));
  Plan plan = b.done(b.add(by_product, b.mul(by_power, b.number(3))));
  fuse_and_compare(fuse_canonical, plan);
  EXPECT_EQ(kinds(plan), "unary binary binary");
  EXPECT_EQ(plan.ops[0].as<UnaryOp>()->op, Unary::kSquare);
}

TEST(FuseCanonical, DivisionByARootIsMultiplicationByItsInverse) {
  for (const int spelling : {0, 1, 2}) {
    PlanBuilder b(6);
    const Input y = b.add(b.unary(Unary::kSquare, b.x()), b.number(1));
    const Input root = b.unary(Unary::kSqrt, y);
    const Input quotients[] = {b.div(b.x(), root), b.mul(b.unary(Unary::kReciprocal, root), b.x()), b.mul(b.x(), b.div(b.number(1), root))};
    Plan plan = b.done(quotients[spelling]);
    plan.drop_unused();
    fuse_and_compare(fuse_canonical, plan);
    EXPECT_EQ(kinds(plan), "unary binary unary binary") << spelling;
    EXPECT_EQ(plan.ops[2].as<UnaryOp>()->op, Unary::kRsqrt);
    EXPECT_EQ(plan.ops[3].as<BinaryOp>()->op, Binary::kMul);
  }
}

TEST(FuseCanonical, ARootThatOthersReadStays) {
  PlanBuilder b(6);
  const Input root = b.unary(Unary::kSqrt, b.add(b.unary(Unary::kSquare, b.x()), b.number(1)));
  Plan plan = b.done(b.add(b.div(b.x(), root), root));
  fuse_and_compare(fuse_canonical, plan);
  EXPECT_EQ(plan.ops[2].as<UnaryOp>()->op, Unary::kSqrt);
}

TEST(FuseCanonical, ConstantsInARowBecomeOne) {
  PlanBuilder b(6);
  const Input scaled = b.div(b.mul(b.number(3), b.mul(b.x(), b.constant({1, 2, 3, 4, 5, 6}))), b.number(4));
  Plan plan = b.done(b.sub(b.add(scaled, b.number(2)), b.number(7)));
  fuse_and_compare(fuse_canonical, plan);
  EXPECT_EQ(kinds(plan), "binary binary");
}

TEST(FuseCanonical, OpsThatChangeNothingAreRemoved) {
  PlanBuilder b(6);
  const Input same = b.add(b.unary(Unary::kIdentity, b.mul(b.x(), b.number(1))), b.number(0));
  Plan plan = b.done(b.unary(Unary::kExp, b.unary(Unary::kNeg, b.unary(Unary::kNeg, same))));
  fuse_and_compare(fuse_canonical, plan);
  EXPECT_EQ(kinds(plan), "unary");
}

TEST(FuseCanonical, SumsWithNegativesAreDifferences) {
  PlanBuilder b(6);
  const Input y = b.unary(Unary::kExp, b.x());
  const Input first = b.add(b.mul(b.x(), b.number(-1)), y), second = b.add(b.unary(Unary::kExp, first), b.sub(b.number(0), y));
  Plan plan = b.done(b.sub(second, b.unary(Unary::kNeg, b.x())));
  fuse_and_compare(fuse_canonical, plan);
  EXPECT_EQ(kinds(plan), "unary binary unary binary binary");
}

TEST(FuseCanonical, SumsDividedByTheirLengthAreMeans) {
  PlanBuilder b(6);
  Plan plan = b.done(b.mul(b.reduce(Reduce::kSum, b.x(), 2), b.number(1.0f / 3.0f)));
  fuse_and_compare(fuse_canonical, plan);
  EXPECT_EQ(kinds(plan), "reduce");
  PlanBuilder other(6);
  Plan no_mean = other.done(other.mul(other.reduce(Reduce::kSum, other.x(), 2), other.number(1.0f / 6.0f)));
  fuse_and_compare(fuse_canonical, no_mean);
  EXPECT_EQ(kinds(no_mean), "reduce binary");
}

TEST(FuseCanonical, AValueThatIsComputedTwiceIsComputedOnce) {
  PlanBuilder b(6);
  const Input first = b.matmul(b.unary(Unary::kExp, b.x()), 4);
  const Input again = b.op(Matmul{{0}}, {b.unary(Unary::kExp, b.x()), Input{}}, 4);
  Plan plan = b.done(b.mul(b.unary(Unary::kTanh, first), again));
  fuse_and_compare(fuse_canonical, plan);
  EXPECT_EQ(kinds(plan), "unary matmul unary binary");
}

TEST(FuseCanonical, ARootThatBecameItsInverseIsNotTakenForTheRootAgain) {
  PlanBuilder b(6);
  const Input y = b.add(b.unary(Unary::kSquare, b.x()), b.number(1));
  const Input first = b.div(b.x(), b.unary(Unary::kSqrt, y)), second = b.div(y, b.unary(Unary::kSqrt, y));
  Plan plan = b.done(b.add(b.unary(Unary::kTanh, first), second));
  EXPECT_GT(fuse_and_compare(fuse_canonical, plan), 0);
}

TEST(FuseCanonical, ASmallDivisorIsNotInvertedIntoInfinity) {
  PlanBuilder b(2);
  Plan plan = b.done(b.div(b.x(), b.number(1e-42f)));
  fuse_canonical(plan);
  EXPECT_EQ(plan.ops[0].as<BinaryOp>()->op, Binary::kDiv);
}

}  // namespace
}  // namespace kvik::native::testing_support
