#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "support.h"

namespace kvik::native::testing_support {
namespace {

int canonical_and_activation(Plan& plan) {
  fuse_canonical(plan);
  return fuse_activation(plan);
}

// The plan ends as this one activation of its row.
void expect_activation(PlanBuilder& b, const Input& output, Unary expected) {
  for (int (*const pass)(Plan&) : {canonical_and_activation, fuse_activation}) {
    PlanBuilder copy = b;
    Plan plan = copy.done(output);
    plan.drop_unused();
    EXPECT_EQ(fuse_and_compare(pass, plan), 1);
    ASSERT_EQ(kinds(plan), "unary");
    EXPECT_EQ(static_cast<int>(plan.ops[0].as<UnaryOp>()->op), static_cast<int>(expected));
  }
}

TEST(FuseActivation, SiluIsFoundInEveryForm) {
  PlanBuilder b(16);
  const Input x = b.x(), one = b.number(1);
  const Input denominator = b.add(b.unary(Unary::kExp, b.unary(Unary::kNeg, x)), one);
  expect_activation(b, b.mul(x, b.unary(Unary::kSigmoid, x)), Unary::kSilu);
  expect_activation(b, b.div(x, denominator), Unary::kSilu);
  expect_activation(b, b.mul(b.div(one, denominator), x), Unary::kSilu);
}

TEST(FuseActivation, GeluIsFoundInEveryForm) {
  PlanBuilder b(16);
  const Input x = b.x(), half = b.number(0.5f), one = b.number(1);
  const Input erf = b.add(b.unary(Unary::kErf, b.div(x, b.number(std::sqrt(2.0f)))), one);
  expect_activation(b, b.mul(b.mul(x, erf), half), Unary::kGeluErf);
  expect_activation(b, b.mul(b.mul(x, half), erf), Unary::kGeluErf);
  expect_activation(b, b.mul(x, b.mul(half, erf)), Unary::kGeluErf);
  const Input halves = b.add(b.mul(b.unary(Unary::kErf, b.mul(x, b.number(0.70710678f))), half), half);
  expect_activation(b, b.mul(x, halves), Unary::kGeluErf);
}

TEST(FuseActivation, GeluByTanhIsFoundInEveryForm) {
  PlanBuilder b(16);
  const Input x = b.x(), half = b.number(0.5f), one = b.number(1), c = b.number(0.7978845608f), d = b.number(0.044715f);
  const Input cube = b.binary(Binary::kPow, x, b.number(3));
  const Input by_power = b.mul(b.add(x, b.mul(cube, d)), c);
  expect_activation(b, b.mul(b.mul(x, half), b.add(b.unary(Unary::kTanh, by_power), one)), Unary::kGeluTanh);
  const Input by_square = b.mul(b.mul(x, c), b.add(b.mul(b.mul(x, x), d), one));
  expect_activation(b, b.mul(half, b.mul(x, b.add(one, b.unary(Unary::kTanh, by_square)))), Unary::kGeluTanh);
}

TEST(FuseActivation, OthersAreFoundToo) {
  PlanBuilder b(16);
  const Input x = b.x();
  const float infinity = std::numeric_limits<float>::infinity();
  expect_activation(b, b.mul(x, b.unary(Unary::kSigmoid, b.mul(x, b.number(1.702f)))), Unary::kGeluQuick);
  expect_activation(b, b.unary(Unary::kLog, b.add(b.unary(Unary::kExp, x), b.number(1))), Unary::kSoftplus);
  expect_activation(b, b.binary(Binary::kMax, x, b.number(0)), Unary::kRelu);
  expect_activation(b, b.op(ClipOp{0.0f, infinity}, {x}, 16), Unary::kRelu);
}

TEST(FuseActivation, SquaredReluIsAGateOfItself) {
  PlanBuilder b(16);
  Plan plan = b.done(b.unary(Unary::kSquare, b.unary(Unary::kRelu, b.x())));
  EXPECT_EQ(fuse_and_compare(canonical_and_activation, plan), 1);
  EXPECT_EQ(kinds(plan), "gate");
}

TEST(FuseActivation, AFactorBeforeAnActivationStaysOutside) {
  PlanBuilder b(16);
  const Input scaled = b.mul(b.x(), b.number(3));
  Plan plan = b.done(b.mul(scaled, b.unary(Unary::kSigmoid, scaled)));
  EXPECT_EQ(fuse_and_compare(canonical_and_activation, plan), 1);
  EXPECT_EQ(kinds(plan), "binary unary");
}

TEST(FuseActivation, AFunctionThatIsOnlySimilarToAnActivationIsNotOne) {
  const auto expect_none = [](auto make) {
    PlanBuilder b(16);
    Plan plan = b.done(make(b, b.x()));
    EXPECT_EQ(fuse_and_compare(canonical_and_activation, plan), 0) << kinds(plan);
  };
  expect_none([](PlanBuilder& b, const Input& x) { return b.mul(x, b.unary(Unary::kSigmoid, b.mul(x, b.number(1.7f)))); });
  expect_none([](PlanBuilder& b, const Input& x) {
    return b.mul(b.mul(x, b.number(0.5f)), b.add(b.unary(Unary::kErf, b.mul(x, b.number(0.7f))), b.number(1)));
  });
  expect_none([](PlanBuilder& b, const Input& x) { return b.op(ClipOp{0.0f, 6.0f}, {x}, 16); });
  expect_none([](PlanBuilder& b, const Input& x) { return b.binary(Binary::kMax, x, b.number(1e-3f)); });
  expect_none([](PlanBuilder& b, const Input& x) { return b.op(ClipOp{-65504.0f, 65504.0f}, {x}, 16); });
}

TEST(FuseActivation, AFunctionThatReturnsNaNIsNotAnActivation) {
  PlanBuilder b(16);
  Plan plan = b.done(b.unary(Unary::kExp, b.unary(Unary::kLog, b.x())));
  EXPECT_EQ(fuse_activation(plan), 0);
}

TEST(FuseActivation, ABoundBehindAnActivationStays) {
  PlanBuilder b(16);
  Plan plan = b.done(b.op(ClipOp{-1000.0f, 1000.0f}, {b.mul(b.x(), b.unary(Unary::kSigmoid, b.x()))}, 16));
  EXPECT_EQ(fuse_and_compare(canonical_and_activation, plan), 1);
  EXPECT_EQ(kinds(plan), "unary clip");
}

TEST(FuseActivation, AStepThatOthersReadIsKept) {
  PlanBuilder b(16);
  const Input sigmoid = b.unary(Unary::kSigmoid, b.x());
  Plan plan = b.done(b.add(b.mul(b.x(), sigmoid), b.unary(Unary::kExp, sigmoid)));
  EXPECT_EQ(fuse_and_compare(canonical_and_activation, plan), 0);
}

TEST(FuseActivation, AVectorOfConstantsIsNotAnActivation) {
  PlanBuilder b(2);
  Plan plan = b.done(b.mul(b.x(), b.unary(Unary::kSigmoid, b.mul(b.x(), b.constant({1.0f, 1.5f})))));
  EXPECT_EQ(fuse_and_compare(canonical_and_activation, plan), 0);
}

}  // namespace
}  // namespace kvik::native::testing_support
