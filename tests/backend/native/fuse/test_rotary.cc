#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "support.h"

namespace kvik::native::testing_support {
namespace {

float angle(int64_t position, int64_t pair) { return static_cast<float>(position) / static_cast<float>(1 + pair * 3); }
// Of a head of 8: four angles, or each of them twice.
float cos4(int64_t p, int64_t e) { return std::cos(angle(p, e)); }
float sin4(int64_t p, int64_t e) { return std::sin(angle(p, e)); }
float cos_halves(int64_t p, int64_t e) { return cos4(p, e % 4); }
float sin_halves(int64_t p, int64_t e) { return sin4(p, e % 4); }
float cos_neighbors(int64_t p, int64_t e) { return cos4(p, e / 2); }
float sin_neighbors(int64_t p, int64_t e) { return sin4(p, e / 2); }
float cos_unequal(int64_t p, int64_t e) { return cos4(p, e % 4) + (e >= 4 && p > 20 ? 0.01f : 0.0f); }

std::vector<int64_t> elements(int64_t heads, int64_t stride, int64_t first, int64_t count) {
  std::vector<int64_t> map;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < count; ++i) map.push_back(h * stride + first + i);
  }
  return map;
}

// x * cos + rotated(x) * sin of `heads` heads of 8, both halves by one table.
Input by_rotated_halves(PlanBuilder& b, const Input& x, int64_t heads, float (*cos)(int64_t, int64_t) = cos_halves) {
  const Input first = b.move({x}, elements(heads, 8, 0, 4)), second = b.move({x}, elements(heads, 8, 4, 4));
  std::vector<int64_t> join;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < 8; ++i) join.push_back(i < 4 ? h * 4 + i : heads * 4 + h * 4 + i - 4);
  }
  const Input rotated = b.move({b.unary(Unary::kNeg, second), first}, join);
  const Input c = b.table_input(b.table(8, cos)), s = b.table_input(b.table(8, sin_halves));
  return b.add(b.mul(x, c, heads), b.mul(rotated, s, heads));
}

// a cos - b sin and b cos + a sin, put together by halves or by neighbors.
Input by_pairs(PlanBuilder& b, const Input& x, int64_t heads, bool interleaved) {
  std::vector<int64_t> a_map, b_map, join;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < 4; ++i) {
      a_map.push_back(h * 8 + (interleaved ? 2 * i : i));
      b_map.push_back(h * 8 + (interleaved ? 2 * i + 1 : i + 4));
    }
    for (int64_t i = 0; i < 8; ++i) {
      const bool second = interleaved ? i % 2 == 1 : i >= 4;
      join.push_back((second ? heads * 4 : 0) + h * 4 + (interleaved ? i / 2 : i % 4));
    }
  }
  const Input first = b.move({x}, a_map), second = b.move({x}, b_map);
  const Input c = b.table_input(b.table(4, cos4)), s = b.table_input(b.table(4, sin4));
  const Input left = b.sub(b.mul(first, c, heads), b.mul(second, s, heads));
  const Input right = b.add(b.mul(first, s, heads), b.mul(second, c, heads));
  return b.move({left, right}, join);
}

int canonical_and_rotary(Plan& plan) {
  fuse_canonical(plan);
  return fuse_rotary(plan);
}

TEST(FuseRotary, RotatedHalvesAreFound) {
  for (const int64_t heads : {1, 3}) {
    PlanBuilder b(8 * heads);
    Plan plan = b.done(by_rotated_halves(b, b.x(), heads));
    EXPECT_EQ(fuse_and_compare(canonical_and_rotary, plan), 1);
    ASSERT_EQ(kinds(plan), "rotary");
    const RotaryOp& rotary = *plan.ops[0].as<RotaryOp>();
    EXPECT_EQ(rotary.n_heads, heads);
    EXPECT_EQ(rotary.head_dim, 8);
    EXPECT_EQ(rotary.n_pairs, 4);
    EXPECT_FALSE(rotary.interleaved);
    EXPECT_EQ(plan.ops[0].in[1].size, 4);
  }
}

TEST(FuseRotary, PairsAreFound) {
  for (const bool interleaved : {false, true}) {
    PlanBuilder b(24);
    Plan plan = b.done(by_pairs(b, b.x(), 3, interleaved));
    EXPECT_EQ(fuse_and_compare(canonical_and_rotary, plan), 1);
    ASSERT_EQ(kinds(plan), "rotary");
    EXPECT_EQ(plan.ops[0].as<RotaryOp>()->interleaved, interleaved);
    EXPECT_EQ(plan.ops[0].as<RotaryOp>()->n_heads, 3);
  }
}

TEST(FuseRotary, InterleavedPairsWithRepeatedAnglesAreFound) {
  PlanBuilder b(16);
  std::vector<int64_t> swap;
  std::vector<float> signs;
  for (int64_t i = 0; i < 16; ++i) {
    swap.push_back(i ^ 1);
    signs.push_back(i % 2 == 0 ? -1.0f : 1.0f);
  }
  const Input rotated = b.mul(b.move({b.x()}, swap), b.constant(signs));
  const Input c = b.table_input(b.table(8, cos_neighbors)), s = b.table_input(b.table(8, sin_neighbors));
  Plan plan = b.done(b.add(b.mul(b.x(), c, 2), b.mul(rotated, s, 2)));
  EXPECT_EQ(fuse_and_compare(canonical_and_rotary, plan), 1);
  ASSERT_EQ(kinds(plan), "rotary");
  EXPECT_TRUE(plan.ops[0].as<RotaryOp>()->interleaved);
  EXPECT_EQ(plan.ops[0].as<RotaryOp>()->head_dim, 8);
}

TEST(FuseRotary, UnrotatedElementsBelongToTheHead) {
  PlanBuilder b(24);  // two heads of 12, eight of them turned
  const Input turned = by_rotated_halves(b, b.move({b.x()}, elements(2, 12, 0, 8)), 2), rest = b.move({b.x()}, elements(2, 12, 8, 4));
  std::vector<int64_t> join;
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 12; ++i) join.push_back(i < 8 ? h * 8 + i : 16 + h * 4 + i - 8);
  }
  Plan plan = b.done(b.move({turned, rest}, join));
  EXPECT_EQ(fuse_and_compare(canonical_and_rotary, plan), 1);
  ASSERT_EQ(kinds(plan), "rotary");
  EXPECT_EQ(plan.ops[0].as<RotaryOp>()->head_dim, 12);
  EXPECT_EQ(plan.ops[0].as<RotaryOp>()->n_pairs, 4);
}

TEST(FuseRotary, ElementsInAnotherOrderAreMovedFirst) {
  PlanBuilder b(16);  // neighbors are brought to halves, then turned
  std::vector<int64_t> map;
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 8; ++i) map.push_back(h * 8 + (i < 4 ? 2 * i : 2 * i - 7));
  }
  Plan plan = b.done(by_rotated_halves(b, b.move({b.x()}, map), 2));
  EXPECT_EQ(fuse_and_compare(canonical_and_rotary, plan), 1);
  EXPECT_EQ(kinds(plan), "move rotary");
}

TEST(FuseRotary, RepeatedHeadsAreTurnedBeforeTheyAreRepeated) {
  PlanBuilder b(16);
  std::vector<int64_t> twice = elements(2, 8, 0, 8);
  for (const int64_t e : elements(2, 8, 0, 8)) twice.push_back(e);
  Plan plan = b.done(b.move({by_rotated_halves(b, b.x(), 2)}, twice));
  EXPECT_EQ(fuse_and_compare(canonical_and_rotary, plan), 1);
  EXPECT_EQ(kinds(plan), "rotary move");
}

TEST(FuseRotary, TheOtherDirectionTurnsByNegatedSines) {
  PlanBuilder b(8);
  const Input x = b.x(), first = b.part(x, 0, 4), second = b.part(x, 4, 4);
  std::vector<int64_t> join(8);
  std::iota(join.begin(), join.end(), 0);
  const Input rotated = b.move({second, b.unary(Unary::kNeg, first)}, join);
  const Input c = b.table_input(b.table(8, cos_halves)), s = b.table_input(b.table(8, sin_halves));
  Plan plan = b.done(b.add(b.mul(x, c), b.mul(rotated, s)));
  EXPECT_EQ(fuse_and_compare(canonical_and_rotary, plan), 1);
  EXPECT_EQ(kinds(plan), "rotary");
}

TEST(FuseRotary, HalvesWithUnequalAnglesAreNotARotation) {
  PlanBuilder b(16);
  Plan plan = b.done(by_rotated_halves(b, b.x(), 2, cos_unequal));
  EXPECT_EQ(fuse_and_compare(canonical_and_rotary, plan), 0);
}

TEST(FuseRotary, AReflectionIsNotARotation) {
  PlanBuilder b(8);
  std::vector<int64_t> swap = {4, 5, 6, 7, 0, 1, 2, 3};  // without the sign
  const Input c = b.table_input(b.table(8, cos_halves)), s = b.table_input(b.table(8, sin_halves));
  Plan plan = b.done(b.add(b.mul(b.x(), c), b.mul(b.move({b.x()}, swap), s)));
  EXPECT_EQ(fuse_and_compare(canonical_and_rotary, plan), 0);
}

TEST(FuseRotary, TwoSourcesAreNotARotation) {
  PlanBuilder b(16);
  const Input y = b.unary(Unary::kExp, b.part(b.x(), 8, 8)), x = b.unary(Unary::kTanh, b.part(b.x(), 0, 8));
  std::vector<int64_t> swap = {4, 5, 6, 7, 0, 1, 2, 3};
  const Input rotated = b.mul(b.move({y}, swap), b.constant({-1, -1, -1, -1, 1, 1, 1, 1}));
  const Input c = b.table_input(b.table(8, cos_halves)), s = b.table_input(b.table(8, sin_halves));
  Plan plan = b.done(b.add(b.mul(x, c), b.mul(rotated, s)));
  EXPECT_EQ(fuse_and_compare(canonical_and_rotary, plan), 0);
}

TEST(FuseRotary, AValueThatIsAlsoReadUnrotatedStays) {
  PlanBuilder b(16);
  const Input x = b.unary(Unary::kTanh, b.x());
  const Input turned = by_rotated_halves(b, x, 2);
  Plan plan = b.done(b.add(turned, x));
  EXPECT_EQ(fuse_and_compare(canonical_and_rotary, plan), 1);
  EXPECT_EQ(kinds(plan), "unary rotary binary");
}

TEST(FuseRotaryMerge, AdjacentRotationsAreMerged) {
  PlanBuilder b(40);
  const Input c = b.table_input(b.table(4, cos4)), s = b.table_input(b.table(4, sin4));
  const auto turn = [&](const Input& x) { return b.op(RotaryOp{x.size / 8, 8, 4, false}, {x, c, s}, x.size); };
  const Input v = b.matmul(b.x(), 40);
  const Input k = turn(b.part(v, 16, 8)), q = turn(b.part(v, 0, 16)), apart = turn(b.part(v, 32, 8));
  std::vector<int64_t> all(32);
  std::iota(all.begin(), all.end(), 0);
  Plan plan = b.done(b.move({q, apart, k}, all));
  EXPECT_EQ(fuse_and_compare(fuse_rotary_merge, plan), 1);
  EXPECT_EQ(kinds(plan), "matmul rotary rotary move");
}

}  // namespace
}  // namespace kvik::native::testing_support
