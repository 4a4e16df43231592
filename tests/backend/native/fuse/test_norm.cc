#include <gtest/gtest.h>

#include "support.h"

namespace kvik::native::testing_support {
namespace {

int canonical_and_norm(Plan& plan) {
  fuse_canonical(plan);
  return fuse_norm(plan);
}

const std::vector<float> kWeight = {1, 2, -3, 0.5, 0.25, 4}, kBias = {1, -1, 2, 0, 3, 1};

TEST(FuseNorm, RootMeanSquareIsFoundInEveryForm) {
  for (int spelling = 0; spelling < 6; ++spelling) {
    PlanBuilder b(6);
    const Input x = b.x();
    const Input squares = spelling % 2 == 0 ? b.mul(x, x) : b.binary(Binary::kPow, x, b.number(2));
    const Input mean = spelling < 3 ? b.reduce(Reduce::kMean, squares) : b.div(b.reduce(Reduce::kSum, squares), b.number(6));
    const Input inside = b.add(mean, b.number(1e-3f));
    Input normed = b.div(x, b.unary(Unary::kSqrt, inside));
    if (spelling == 1) normed = b.mul(x, b.unary(Unary::kReciprocal, b.unary(Unary::kSqrt, inside)));
    if (spelling == 2) normed = b.mul(b.unary(Unary::kRsqrt, inside), x);
    if (spelling == 4) normed = b.mul(x, b.binary(Binary::kPow, inside, b.number(-0.5f)));
    Plan plan =
        b.done(spelling == 5 ? b.div(b.mul(x, b.constant(kWeight)), b.unary(Unary::kSqrt, inside)) : b.mul(b.constant(kWeight), normed));
    plan.drop_unused();
    EXPECT_EQ(fuse_and_compare(canonical_and_norm, plan), 1);
    EXPECT_EQ(kinds(plan), "norm") << spelling;
    EXPECT_FALSE(plan.ops[0].as<NormOp>()->centered);
    EXPECT_FLOAT_EQ(plan.ops[0].as<NormOp>()->epsilon, 1e-3f);
    EXPECT_EQ(plan.ops[0].fused_by, "norm");
  }
}

TEST(FuseNorm, LayerNormIsFoundWithWeightAndBias) {
  for (const bool twice : {false, true}) {
    PlanBuilder b(6);
    const Input mean = b.reduce(Reduce::kMean, b.x());
    const Input centered = b.sub(b.x(), mean);
    const Input squared = b.binary(Binary::kPow, twice ? b.sub(b.x(), mean) : centered, b.number(2));
    const Input root = b.unary(Unary::kSqrt, b.add(b.reduce(Reduce::kMean, squared), b.number(1e-5f)));
    Plan plan = b.done(b.add(b.mul(b.div(centered, root), b.constant(kWeight)), b.constant(kBias)));
    fuse_and_compare(canonical_and_norm, plan);
    EXPECT_EQ(kinds(plan), "norm");
    EXPECT_TRUE(plan.ops[0].as<NormOp>()->centered);
    EXPECT_TRUE(plan.ops[0].in[1] && plan.ops[0].in[2]);
  }
}

TEST(FuseNorm, EachHeadIsNormalizedSeparately) {
  PlanBuilder b(12);
  const Input mean = b.reduce(Reduce::kMean, b.unary(Unary::kSquare, b.x()), 2);
  const Input inverse = b.unary(Unary::kRsqrt, b.add(mean, b.number(1e-6f)));
  const Input normed = b.op(BinaryOp{Binary::kMul, Spread::kAll, Spread::kPerGroup, 2}, {b.x(), inverse}, 12);
  Plan plan = b.done(b.mul(normed, b.constant(kWeight), 2));
  fuse_and_compare(canonical_and_norm, plan);
  EXPECT_EQ(kinds(plan), "norm");
  EXPECT_EQ(plan.ops[0].as<NormOp>()->groups, 2);
}

TEST(FuseNorm, ALengthNormIsANormWithAnotherWeight) {
  PlanBuilder b(6);
  const Input sum = b.reduce(Reduce::kSum, b.mul(b.x(), b.x()));
  Plan plan = b.done(b.mul(b.x(), b.unary(Unary::kRsqrt, b.add(sum, b.number(0.5f)))));
  fuse_and_compare(canonical_and_norm, plan);
  EXPECT_EQ(kinds(plan), "norm");
}

TEST(FuseNorm, AFactorAfterANormIsMergedIntoItsWeightAndBias) {
  PlanBuilder b(6);
  const Input normed = b.op(NormOp{true, 1e-5f, 1}, {b.x(), b.constant(kWeight), b.constant(kBias)}, 6);
  Plan plan = b.done(b.mul(normed, b.number(0.25f)));
  fuse_and_compare(canonical_and_norm, plan);
  EXPECT_EQ(kinds(plan), "norm");
}

TEST(FuseNorm, TwoNormsOfOneValueWithDifferentWeightsAreTwo) {
  PlanBuilder b(6);
  const auto norm = [&](const std::vector<float>& weight, const std::vector<float>& bias) {
    const Input centered = b.sub(b.x(), b.reduce(Reduce::kMean, b.x()));
    const Input root = b.unary(Unary::kSqrt, b.add(b.reduce(Reduce::kMean, b.mul(centered, centered)), b.number(1e-5f)));
    return b.add(b.mul(b.div(centered, root), b.constant(weight)), b.constant(bias));
  };
  const Input left = norm(kWeight, kBias), right = norm(kBias, kWeight);
  Plan plan = b.done(b.mul(b.unary(Unary::kTanh, left), right));
  fuse_and_compare(canonical_and_norm, plan);
  EXPECT_EQ(count(plan, "norm"), 2);
  EXPECT_EQ(plan.ops.size(), 4u);
}

TEST(FuseNorm, EpsilonOutsideOfTheRootIsNotANorm) {
  PlanBuilder b(6);
  const Input mean = b.reduce(Reduce::kMean, b.mul(b.x(), b.x()));
  Plan plan = b.done(b.div(b.x(), b.add(b.unary(Unary::kSqrt, mean), b.number(0.1f))));
  EXPECT_EQ(fuse_and_compare(canonical_and_norm, plan), 0);
}

TEST(FuseNorm, AMeanOverOtherGroupsIsNotANorm) {
  PlanBuilder b(12);
  const Input mean = b.reduce(Reduce::kMean, b.mul(b.x(), b.x()), 2);
  const Input inverse = b.unary(Unary::kRsqrt, b.add(mean, b.number(1e-6f)));
  Plan plan = b.done(b.op(BinaryOp{Binary::kMul, Spread::kAll, Spread::kEvery, 6}, {b.x(), inverse}, 12));
  EXPECT_EQ(fuse_and_compare(canonical_and_norm, plan), 0);
}

TEST(FuseNorm, DividingAnotherValueByTheRootIsNotANorm) {
  PlanBuilder b(6);
  const Input y = b.unary(Unary::kTanh, b.x());
  const Input mean = b.reduce(Reduce::kMean, b.mul(y, y));
  Plan plan = b.done(b.mul(b.x(), b.unary(Unary::kRsqrt, b.add(mean, b.number(1e-6f)))));
  EXPECT_EQ(fuse_and_compare(canonical_and_norm, plan), 0);
}

TEST(FuseNorm, AWeightThatDiffersFromHeadToHeadStaysBehind) {
  PlanBuilder b(12);
  const Input mean = b.reduce(Reduce::kMean, b.mul(b.x(), b.x()), 2);
  const Input inverse = b.unary(Unary::kRsqrt, b.add(mean, b.number(1e-6f)));
  const Input normed = b.op(BinaryOp{Binary::kMul, Spread::kAll, Spread::kPerGroup, 2}, {b.x(), inverse}, 12);
  Plan plan = b.done(b.mul(normed, b.constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})));
  fuse_and_compare(canonical_and_norm, plan);
  EXPECT_EQ(kinds(plan), "norm binary");
}

TEST(FuseNorm, ARootThatOthersReadIsKept) {
  PlanBuilder b(6);
  const Input inverse = b.unary(Unary::kRsqrt, b.add(b.reduce(Reduce::kMean, b.mul(b.x(), b.x())), b.number(1e-6f)));
  Plan plan = b.done(b.add(b.mul(b.x(), inverse), inverse));
  EXPECT_EQ(fuse_and_compare(canonical_and_norm, plan), 0);
}

}  // namespace
}  // namespace kvik::native::testing_support
