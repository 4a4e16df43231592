#include <gtest/gtest.h>
#include <limits>

#include "onnx/eval/op.h"

// Operators over rows: reductions, softmax, normalization.
namespace kvik::onnx::testing_support {
namespace {

TEST(Reduce, EqualsALoopOverTheAxes) {
  const Tensor x = counting({2, 3, 4});
  const Tensor found = Op("ReduceSum", 13).set("keepdims", 0).run({x, ints({0, -1})});
  std::vector<float> expected(3, 0.0f);
  for (size_t i = 0; i < 24; ++i) expected[i / 4 % 3] += x.data<float>()[i];
  expect_equal(found, floats({3}, expected));
}

TEST(Reduce, AxesAreAnAttributeInOldOpsetsAndAnInputInNewOnes) {
  const Tensor x = counting({2, 3});
  expect_equal(Op("ReduceMean", 13).list("axes", {1}).run({x}), floats({2, 1}, {1, 4}));
  expect_equal(Op("ReduceMean", 18).run({x, ints({1})}), floats({2, 1}, {1, 4}));
  expect_equal(Op("ReduceMean", 18).set("noop_with_empty_axes", 1).run({x}), x);
  expect_equal(Op("ReduceMean", 18).run({x}), floats({1, 1}, {2.5f}));
}

TEST(Reduce, HasTheSpecifiedValue) {
  const Tensor x = floats({3}, {1, -2, 3});
  const std::pair<const char*, float> cases[] = {
      {"ReduceMax", 3},         {"ReduceMin", -2},       {"ReduceProd", -6},           {"ReduceL1", 6},
      {"ReduceL2", 3.7416575f}, {"ReduceSumSquare", 14}, {"ReduceLogSum", 0.6931472f}, {"ReduceLogSumExp", 3.1328454f}};
  for (const auto& [op, expected] : cases) { EXPECT_NEAR(Op(op).set("keepdims", 0).run({x}).data<float>()[0], expected, 1e-5f) << op; }
}

TEST(Reduce, EmptyReductionGivesTheNeutralElement) {
  const Tensor none(DType::kF32, {0});
  EXPECT_EQ(Op("ReduceSum").run({none}).data<float>()[0], 0.0f);
  EXPECT_EQ(Op("ReduceProd").run({none}).data<float>()[0], 1.0f);
  EXPECT_EQ(Op("ReduceMax").run({none}).data<float>()[0], -std::numeric_limits<float>::infinity());
}

TEST(Reduce, InvalidAndDuplicateAxesAreRefused) {
  EXPECT_NE(Op("ReduceSum").refusal({counting({2, 3}), ints({2})}), "");
  EXPECT_NE(Op("ReduceSum").refusal({counting({2, 3}), ints({0, -2})}), "");
}

TEST(Softmax, RowsSumToOneAndLargeNumbersDoNotOverflow) {
  const Tensor y = Op("Softmax").run({floats({2, 2}, {1000, 1001, -5, -5})});
  EXPECT_NEAR(y.data<float>()[1], 0.7310586f, 1e-6f);
  EXPECT_EQ(y.data<float>()[2], 0.5f);
  const Tensor log = Op("LogSoftmax").run({floats({2, 2}, {1000, 1001, -5, -5})});
  EXPECT_NEAR(log.data<float>()[0], -1.3132617f, 1e-6f);
}

TEST(Softmax, NormalizesAllAxesFromTheGivenOneBeforeOpset13) {
  const Tensor x = Tensor(DType::kF32, {2, 2, 2});
  expect_equal(Op("Softmax", 11).run({x}), floats({2, 2, 2}, std::vector<float>(8, 0.25f)));
  expect_equal(Op("Softmax", 13).run({x}), floats({2, 2, 2}, std::vector<float>(8, 0.5f)));
  expect_equal(Op("Hardmax", 13).run({floats({3}, {1, 5, 5})}), floats({3}, {0, 1, 0}));
}

TEST(Normalization, LayerNormHasMeanZeroAndVarianceOne) {
  const Tensor x = counting({2, 4});
  const std::vector<Tensor> y = Op("LayerNormalization").set("epsilon", 0.0f).outputs(3).all({x, floats({4}, {1, 1, 1, 1})});
  expect_near(y[0], floats({2, 4}, {-1.3416407f, -0.4472136f, 0.4472136f, 1.3416407f, -1.3416407f, -0.4472136f, 0.4472136f, 1.3416407f}));
  expect_near(y[1], floats({2, 1}, {1.5f, 5.5f}));
  expect_near(y[2], floats({2, 1}, {0.8944272f, 0.8944272f}));
}

TEST(Normalization, LayerNormOfHalfHasFloatStatistics) {
  const Tensor x = Tensor::of<Half>({1, 2}, {Half(1.0f), Half(3.0f)});
  const Tensor scale = Tensor::of<Half>({2}, {Half(1.0f), Half(1.0f)});
  const std::vector<Tensor> y = Op("LayerNormalization").outputs(2).all({x, scale});
  EXPECT_EQ(y[0].dtype(), DType::kF16);
  EXPECT_EQ(y[1].dtype(), DType::kF32);
}

TEST(Normalization, GroupNormOfOneChannelPerGroupIsInstanceNorm) {
  const Tensor x = counting({1, 2, 3}, 7);
  const Tensor scale = floats({2}, {2, 3});
  const Tensor bias = floats({2}, {0, 1});
  const Tensor instance = Op("InstanceNormalization").run({x, scale, bias});
  expect_near(Op("GroupNormalization", 21).set("num_groups", 2).run({x, scale, bias}), instance);
  EXPECT_NE(Op("GroupNormalization", 21).set("num_groups", 3).refusal({x, scale, bias}), "");
}

TEST(Normalization, BatchNormUsesTheGivenMeanAndVariance) {
  const Tensor x = floats({1, 2, 1}, {5, 5});
  const Tensor y = Op("BatchNormalization")
                       .set("epsilon", 0.0f)
                       .run({x, floats({2}, {1, 2}), floats({2}, {0, 1}), floats({2}, {1, 5}), floats({2}, {4, 1})});
  expect_near(y, floats({1, 2, 1}, {2, 1}));
}

TEST(Normalization, LpNormDividesByTheNorm) {
  expect_near(Op("LpNormalization").run({floats({2}, {3, 4})}), floats({2}, {0.6f, 0.8f}));
  expect_near(Op("LpNormalization").set("p", 1).run({floats({2}, {1, -3})}), floats({2}, {0.25f, -0.75f}));
}

}  // namespace
}  // namespace kvik::onnx::testing_support
