#include <gtest/gtest.h>
#include <limits>

#include "onnx/eval/converted.h"
#include "onnx/eval/op.h"

namespace kvik::onnx::testing_support {
namespace {

// One tensor of each way to store elements: bytes, words, packed, strings.
std::vector<Tensor> one_of_each(const Dims& dims) {
  const Tensor x = counting(dims);
  std::vector<Tensor> result;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kI8, DType::kU4, DType::kI2, DType::kString}) {
    result.push_back(converted(x, dtype));
  }
  return result;
}

TEST(Movement, TransposeTwiceIsTheIdentity) {
  for (const Tensor& x : one_of_each({2, 3, 4})) {
    const Tensor once = Op("Transpose").list("perm", {2, 0, 1}).run({x});
    EXPECT_EQ(once.dims(), (Dims{4, 2, 3}));
    expect_equal(Op("Transpose").list("perm", {1, 2, 0}).run({once}), x);
    expect_equal(Op("Transpose").run({Op("Transpose").run({x})}), x);
  }
}

TEST(Movement, ConcatInvertsSplit) {
  for (const Tensor& x : one_of_each({2, 5, 3})) {
    const std::vector<Tensor> by_input = Op("Split", 13).set("axis", 1).outputs(3).all({x, ints({1, 0, 4})});
    expect_equal(Op("Concat").set("axis", -2).run(by_input), x);
    const std::vector<Tensor> by_attribute = Op("Split", 11).set("axis", 1).list("split", {2, 3}).outputs(2).all({x});
    expect_equal(Op("Concat").set("axis", 1).run(by_attribute), x);
    const std::vector<Tensor> uneven = Op("Split", 18).set("axis", 1).set("num_outputs", 3).outputs(3).all({x});
    EXPECT_EQ(uneven[2].dim(1), 1);
    expect_equal(Op("Concat").set("axis", 1).run(uneven), x);
  }
}

TEST(Movement, SplitRefusesPartsThatDoNotAddUp) {
  EXPECT_NE(Op("Split", 13).outputs(2).refusal({counting({4}), ints({1, 2})}), "");
  EXPECT_NE(Op("Split", 13).outputs(2).refusal({counting({4}), ints({-1, 5})}), "");
  EXPECT_NE(Op("Split", 13).outputs(3).refusal({counting({4})}), "");
}

struct SliceCase {
  std::vector<int64_t> start, end, step;
  std::vector<float> expected;
};

TEST(Movement, SliceEqualsPythonSlices) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  const SliceCase cases[] = {
      {{1}, {3}, {1}, {1, 2}},
      {{-2}, {kMost}, {1}, {3, 4}},
      {{0}, {kMost}, {2}, {0, 2, 4}},
      {{-1}, {kLeast}, {-1}, {4, 3, 2, 1, 0}},
      {{3}, {0}, {-2}, {3, 1}},
      {{4}, {2}, {1}, {}},
      {{-100}, {2}, {1}, {0, 1}},
      {{0}, {5}, {kMost}, {0}},
      {{kMost}, {kLeast}, {kLeast}, {4}},
  };
  for (const SliceCase& c : cases) {
    const Tensor found = Op("Slice").run({counting({5}), ints(c.start), ints(c.end), ints({0}), ints(c.step)});
    EXPECT_EQ(values<float>(found), c.expected) << c.start[0] << ":" << c.end[0] << ":" << c.step[0];
  }
}

TEST(Movement, SliceUsesAttributesBeforeOpset10) {
  const Tensor x = counting({2, 3});
  expect_equal(Op("Slice", 9).list("starts", {1}).list("ends", {3}).list("axes", {1}).run({x}),
               Op("Slice", 10).run({x, ints({1}), ints({3}), ints({1})}));
}

TEST(Movement, ReshapeSupportsZeroAndMinusOne) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(Op("Reshape").run({x, ints({0, -1})}).dims(), (Dims{2, 12}));
  EXPECT_EQ(Op("Reshape", 1).list("shape", {4, -1, 2}).run({x}).dims(), (Dims{4, 3, 2}));
  EXPECT_EQ(Op("Reshape").set("allowzero", 1).run({Tensor(DType::kF32, {0, 3}), ints({3, 0})}).dims(), (Dims{3, 0}));
  EXPECT_NE(Op("Reshape").refusal({x, ints({-1, -1})}), "");
  EXPECT_NE(Op("Reshape").refusal({x, ints({5, -1})}), "");
  EXPECT_NE(Op("Reshape").refusal({x, ints({1, 1, 1, 0})}), "");
}

TEST(Movement, SqueezeInvertsUnsqueezeInAllOpsets) {
  const Tensor x = counting({2, 3});
  for (const int opset : {11, 13}) {
    const bool as_input = opset >= 13;
    const std::vector<int64_t> axes = {-1, 0};
    Op unsqueeze("Unsqueeze", opset);
    Op squeeze("Squeeze", opset);
    if (!as_input) {
      unsqueeze.list("axes", axes);
      squeeze.list("axes", axes);
    }
    const Tensor wide = unsqueeze.run(as_input ? std::vector<Tensor>{x, ints(axes)} : std::vector<Tensor>{x});
    EXPECT_EQ(wide.dims(), (Dims{1, 2, 3, 1}));
    expect_equal(squeeze.run(as_input ? std::vector<Tensor>{wide, ints(axes)} : std::vector<Tensor>{wide}), x);
  }
  EXPECT_NE(Op("Squeeze").refusal({x, ints({0})}), "");
}

TEST(Movement, TileAndExpandRepeat) {
  for (const Tensor& x : one_of_each({1, 2})) {
    expect_equal(Op("Tile").run({x, ints({3, 1})}), Op("Expand").run({x, ints({3, 1})}));
    EXPECT_EQ(Op("Tile").run({x, ints({2, 2})}).dims(), (Dims{2, 4}));
    EXPECT_EQ(Op("Tile").run({x, ints({0, 2})}).dims(), (Dims{0, 4}));
  }
}

struct PadCase {
  const char* mode;
  std::vector<float> expected;
};

TEST(Movement, PadSupportsEveryMode) {
  const PadCase cases[] = {{"constant", {9, 9, 9, 0, 1, 2, 9, 9}},
                           {"edge", {0, 0, 0, 0, 1, 2, 2, 2}},
                           {"reflect", {1, 2, 1, 0, 1, 2, 1, 0}},
                           {"wrap", {0, 1, 2, 0, 1, 2, 0, 1}}};
  for (const PadCase& c : cases) {
    EXPECT_EQ(values<float>(Op("Pad").set("mode", c.mode).run({counting({3}), ints({3, 2}), Tensor::scalar(9.0f)})), c.expected) << c.mode;
  }
}

TEST(Movement, NegativePadsCropAndOldOpsetsUseAttributes) {
  expect_equal(Op("Pad").run({counting({4}), ints({-1, -2})}), floats({1}, {1}));
  expect_equal(Op("Pad", 2).list("pads", {1, 0}).set("value", 5.0f).run({counting({2})}), floats({3}, {5, 0, 1}));
  expect_equal(Op("Pad", 18).run({counting({1, 2}), ints({0, 1}), Tensor(), ints({1})}), floats({1, 3}, {0, 1, 0}));
  EXPECT_NE(Op("Pad").refusal({counting({2}), ints({-3, 0})}), "");
}

TEST(Movement, SpaceToDepthInvertsDepthToSpace) {
  const Tensor x = counting({1, 8, 2, 3});
  const Tensor y = Op("DepthToSpace").set("blocksize", 2).run({x});
  EXPECT_EQ(y.dims(), (Dims{1, 2, 4, 6}));
  expect_equal(Op("SpaceToDepth").set("blocksize", 2).run({y}), x);
}

TEST(Movement, FlattenSplitsAtTheAxis) {
  EXPECT_EQ(Op("Flatten").set("axis", 0).run({counting({2, 3, 4})}).dims(), (Dims{1, 24}));
  EXPECT_EQ(Op("Flatten").set("axis", -1).run({counting({2, 3, 4})}).dims(), (Dims{6, 4}));
  EXPECT_EQ(Op("Flatten").set("axis", 3).run({counting({2, 3, 4})}).dims(), (Dims{24, 1}));
}

TEST(Movement, ReverseSequenceTwiceIsTheIdentity) {
  const Tensor x = counting({4, 2});
  Op op("ReverseSequence");
  const Tensor once = op.run({x, ints({3, 4})});
  EXPECT_EQ(once.data<float>()[0], 4.0f);
  expect_equal(op.run({once, ints({3, 4})}), x);
}

}  // namespace
}  // namespace kvik::onnx::testing_support
