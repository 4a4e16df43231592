#include <gtest/gtest.h>

#include "support.h"

namespace kvik::native::testing_support {
namespace {

TEST(FuseGate, AnActivationTimesAnotherValueIsAGate) {
  for (const bool left : {false, true}) {
    PlanBuilder b(8);
    const Input a = b.unary(Unary::kSilu, b.part(b.x(), 0, 4)), up = b.part(b.x(), 4, 4);
    Plan plan = b.done(left ? b.mul(a, up) : b.mul(up, a));
    EXPECT_EQ(fuse_and_compare(fuse_gate, plan), 1);
    EXPECT_EQ(kinds(plan), "gate");
  }
}

TEST(FuseGate, AnActivationThatOthersReadOrThatIsNoneStays) {
  PlanBuilder b(8);
  const Input a = b.unary(Unary::kSilu, b.part(b.x(), 0, 4)), up = b.part(b.x(), 4, 4);
  Plan read_twice = b.done(b.add(b.mul(a, up), a));
  EXPECT_EQ(fuse_and_compare(fuse_gate, read_twice), 0);
  PlanBuilder other(8);
  Plan no_activation = other.done(other.mul(other.unary(Unary::kExp, other.part(other.x(), 0, 4)), other.part(other.x(), 4, 4)));
  EXPECT_EQ(fuse_and_compare(fuse_gate, no_activation), 0);
  PlanBuilder spread(8);
  Plan one_number = spread.done(spread.mul(spread.x(), spread.unary(Unary::kSigmoid, spread.part(spread.x(), 0, 1))));
  EXPECT_EQ(fuse_and_compare(fuse_gate, one_number), 0);
}

TEST(FuseScale, FactorsOfQueriesAndKeysGoIntoTheScale) {
  PlanBuilder b(4);
  const Input q = b.mul(b.matmul(b.x(), 4), b.number(0.5f)), k = b.mul(b.matmul(b.x(), 4), b.number(0.25f));
  Plan plan = b.done(b.attend(q, k, b.x()));
  EXPECT_EQ(fuse_and_compare(fuse_scale, plan), 2);
  EXPECT_EQ(kinds(plan), "matmul matmul append attend");
  EXPECT_FLOAT_EQ(plan.attends[0].scale, 0.125f);
}

TEST(FuseScale, AFactorMovesThroughMovesAndRotations) {
  PlanBuilder b(4);
  const int table = b.table(2, [](int64_t p, int64_t e) { return static_cast<float>(p + e) * 0.1f; });
  const Input scaled = b.mul(b.matmul(b.x(), 4), b.number(0.5f));
  const Input moved = b.move({scaled}, {2, 3, 0, 1});
  const Input q = b.op(RotaryOp{1, 4, 2, false}, {moved, b.table_input(table), b.table_input(table)}, 4);
  Plan plan = b.done(b.attend(q, b.x(), b.x()));
  EXPECT_EQ(fuse_and_compare(fuse_scale, plan), 1);
  EXPECT_EQ(kinds(plan), "matmul move rotary append attend");
}

TEST(FuseScale, AScaledValueThatOthersReadStays) {
  PlanBuilder b(4);
  const Input q = b.mul(b.matmul(b.x(), 4), b.number(0.5f));
  Plan plan = b.done(b.add(b.attend(q, b.x(), b.x()), q));
  EXPECT_EQ(fuse_and_compare(fuse_scale, plan), 0);
  PlanBuilder other(4);
  const Input uneven = other.mul(other.matmul(other.x(), 4), other.constant({1, 2, 3, 4}));
  Plan by_vector = other.done(other.attend(uneven, other.x(), other.x()));
  EXPECT_EQ(fuse_and_compare(fuse_scale, by_vector), 0);
}

Plan attention_over_repeated(PlanBuilder& b, const std::vector<int64_t>& k_map, const std::vector<int64_t>& v_map) {
  const Input k = b.matmul(b.x(), 4), v = b.matmul(b.x(), 4);
  const Input all = b.attend(b.matmul(b.x(), 8), b.move({k}, k_map), b.move({v}, v_map));
  Plan plan = b.done(all);
  AttentionSpec& attend = plan.attends[0];
  attend.n_heads = attend.n_kv_heads = 4;
  attend.key_dim = attend.value_dim = 2;
  return plan;
}

TEST(FuseKvHeads, RepeatedHeadsAreKeptOnce) {
  PlanBuilder b(4);
  Plan plan = attention_over_repeated(b, {0, 1, 0, 1, 2, 3, 2, 3}, {0, 1, 0, 1, 2, 3, 2, 3});
  EXPECT_EQ(fuse_kv_heads(plan), 1);
  EXPECT_EQ(kinds(plan), "matmul matmul matmul append attend");
  EXPECT_EQ(plan.attends[0].n_kv_heads, 2);
  EXPECT_TRUE(plan.attends[0].kv_head_of.empty());
}

TEST(FuseKvHeads, HeadsInAnotherOrderAreNamed) {
  PlanBuilder b(4);
  Plan plan = attention_over_repeated(b, {0, 1, 2, 3, 0, 1, 2, 3}, {0, 1, 2, 3, 0, 1, 2, 3});
  EXPECT_EQ(fuse_kv_heads(plan), 1);
  EXPECT_EQ(plan.attends[0].kv_head_of, (std::vector<int32_t>{0, 1, 0, 1}));
}

TEST(FuseKvHeads, KeysAndValuesOfDifferentHeadsStay) {
  PlanBuilder b(4);
  Plan plan = attention_over_repeated(b, {0, 1, 0, 1, 2, 3, 2, 3}, {0, 1, 2, 3, 0, 1, 2, 3});
  EXPECT_EQ(fuse_kv_heads(plan), 0);
  PlanBuilder other(4);
  Plan across = attention_over_repeated(other, {1, 2, 1, 2, 2, 3, 2, 3}, {1, 2, 1, 2, 2, 3, 2, 3});
  EXPECT_EQ(fuse_kv_heads(across), 0);
}

// A rounding to steps of 0.5, in three operations.
Input rounded_to_halves(PlanBuilder& b, const Input& x) { return b.mul(b.unary(Unary::kRound, b.mul(x, b.number(2.0f))), b.number(0.5f)); }

TEST(FuseLateRepeat, RepeatedHeadsAreRoundedOnceAndKeptOnce) {
  PlanBuilder b(4);
  const std::vector<int64_t> twice = {0, 1, 0, 1, 2, 3, 2, 3};
  const Input k = rounded_to_halves(b, b.move({b.matmul(b.x(), 4)}, twice)), v = b.move({b.matmul(b.x(), 4)}, twice);
  Plan plan = b.done(b.attend(b.matmul(b.x(), 8), k, v));
  plan.attends[0].n_heads = plan.attends[0].n_kv_heads = 4;
  plan.attends[0].key_dim = plan.attends[0].value_dim = 2;
  EXPECT_EQ(fuse_and_compare(fuse_late_repeat, plan), 3);
  EXPECT_EQ(count(plan, "binary"), 2);
  for (const Op& op : plan.ops) EXPECT_TRUE(op.as<UnaryOp>() == nullptr || op.in[0].size == 4);
  EXPECT_EQ(fuse_kv_heads(plan), 1);
  EXPECT_EQ(plan.attends[0].n_kv_heads, 2);
}

TEST(FuseLateRepeat, OtherMovesAndRepeatsThatOthersReadStay) {
  PlanBuilder b(4);
  Plan permuted = b.done(rounded_to_halves(b, b.move({b.x()}, {3, 2, 1, 0})));
  EXPECT_EQ(fuse_and_compare(fuse_late_repeat, permuted), 0);
  PlanBuilder other(2);
  const Input repeated = other.move({other.x()}, {0, 1, 0, 1});
  Plan read_twice = other.done(other.add(other.unary(Unary::kRound, repeated), repeated));
  EXPECT_EQ(fuse_and_compare(fuse_late_repeat, read_twice), 0);
  PlanBuilder third(2);
  const Input apart = third.mul(third.move({third.x()}, {0, 1, 0, 1}), third.constant({1, 2, 3, 4}));
  Plan by_element = third.done(apart);
  EXPECT_EQ(fuse_and_compare(fuse_late_repeat, by_element), 0);
}

TEST(FuseMatmulBias, AnAddedConstantIsTheBias) {
  PlanBuilder b(4);
  const Input biased = b.matmul(b.x(), 3, b.constant({1, 1, 1}));
  Plan plan = b.done(b.add(b.add(biased, b.constant({1, 2, 3})), b.number(5)));
  EXPECT_EQ(fuse_and_compare(fuse_matmul_bias, plan), 2);
  EXPECT_EQ(kinds(plan), "matmul");
}

TEST(FuseMatmulBias, AnAddedValueIsNotABias) {
  PlanBuilder b(4);
  Plan plan = b.done(b.add(b.matmul(b.x(), 4), b.x()));
  EXPECT_EQ(fuse_and_compare(fuse_matmul_bias, plan), 0);
  PlanBuilder other(4);
  const Input product = other.matmul(other.x(), 4);
  Plan read_twice = other.done(other.mul(other.add(product, other.number(1)), product));
  EXPECT_EQ(fuse_and_compare(fuse_matmul_bias, read_twice), 0);
}

TEST(FuseSkipNorm, TheSumIsKeptWhereItIsReadAgain) {
  for (const bool read_again : {false, true}) {
    PlanBuilder b(8);
    const Input sum = b.add(b.part(b.x(), 0, 4), b.part(b.x(), 4, 4));
    const Input first = read_again ? b.unary(Unary::kExp, sum) : b.x();
    const Input normed = b.op(NormOp{false, 1e-5f, 1}, {sum, b.constant({1, 2, 3, 4}), Input{}}, 4);
    Plan plan = b.done(b.mul(normed, b.part(first, 0, 4)));
    EXPECT_EQ(fuse_and_compare(fuse_skip_norm, plan), 1);
    EXPECT_EQ(kinds(plan), read_again ? "skip_norm unary binary" : "skip_norm binary");
    EXPECT_EQ(plan.ops[0].out.size(), read_again ? 2u : 1u);
  }
}

TEST(FuseSkipNorm, TwoNormsOfOneSumShareIt) {
  PlanBuilder b(8);
  const Input sum = b.add(b.part(b.x(), 0, 4), b.part(b.x(), 4, 4));
  const auto norm = [&](float epsilon) { return b.op(NormOp{true, epsilon, 1}, {sum, Input{}, Input{}}, 4); };
  const Input left = norm(1e-5f), right = norm(1e-3f);
  Plan plan = b.done(b.add(b.unary(Unary::kTanh, left), right));
  EXPECT_EQ(fuse_and_compare(fuse_skip_norm, plan), 1);
  EXPECT_EQ(kinds(plan), "skip_norm norm unary binary");
}

TEST(FuseSkipNorm, NormsOfHeadsAndSumsWithConstantsStay) {
  PlanBuilder b(8);
  const Input sum = b.add(b.x(), b.unary(Unary::kExp, b.x()));
  Plan heads = b.done(b.op(NormOp{false, 1e-5f, 2}, {sum, Input{}, Input{}}, 8));
  EXPECT_EQ(fuse_and_compare(fuse_skip_norm, heads), 0);
  PlanBuilder other(8);
  Plan constant = other.done(other.op(NormOp{false, 1e-5f, 1}, {other.add(other.x(), other.number(2)), Input{}, Input{}}, 8));
  EXPECT_EQ(fuse_and_compare(fuse_skip_norm, constant), 0);
}

}  // namespace
}  // namespace kvik::native::testing_support
