#include <gtest/gtest.h>

#include "onnx/eval/op.h"

// Convolution, pooling, resizing.
namespace kvik::onnx::testing_support {
namespace {

TEST(Conv, OneByOneKernelIsAMatMulOfChannels) {
  const Tensor x = counting({1, 3, 4});
  const Tensor w = counting({2, 3, 1});
  const Tensor expected = Op("MatMul").run({w.reshaped({2, 3}), x.reshaped({3, 4})});
  expect_equal(Op("Conv").run({x, w}), expected.reshaped({1, 2, 4}));
}

TEST(Conv, StridesDilationsAndPadsPlaceTheWindow) {
  const Tensor x = floats({1, 1, 5}, {1, 2, 3, 4, 5});
  const Tensor w = floats({1, 1, 2}, {1, 10});
  expect_equal(Op("Conv").run({x, w}), floats({1, 1, 4}, {21, 32, 43, 54}));
  expect_equal(Op("Conv").list("strides", {2}).run({x, w}), floats({1, 1, 2}, {21, 43}));
  expect_equal(Op("Conv").list("dilations", {2}).run({x, w}), floats({1, 1, 3}, {31, 42, 53}));
  expect_equal(Op("Conv").list("pads", {1, 1}).run({x, w}), floats({1, 1, 6}, {10, 21, 32, 43, 54, 5}));
  expect_equal(Op("Conv").set("auto_pad", "SAME_UPPER").run({x, w}), floats({1, 1, 5}, {21, 32, 43, 54, 5}));
  expect_equal(Op("Conv").set("auto_pad", "SAME_LOWER").run({x, w}), floats({1, 1, 5}, {10, 21, 32, 43, 54}));
}

TEST(Conv, GroupsAreIndependent) {
  const Tensor x = counting({1, 2, 3});
  const Tensor w = floats({2, 1, 1}, {1, 10});
  expect_equal(Op("Conv").set("group", 2).run({x, w, floats({2}, {0, 1})}), floats({1, 2, 3}, {0, 1, 2, 31, 41, 51}));
}

TEST(Conv, ShapesThatDoNotMatchAreRefused) {
  const Tensor x = counting({1, 2, 3});
  EXPECT_NE(Op("Conv").refusal({x, counting({2, 3, 1})}), "");
  EXPECT_NE(Op("Conv").set("group", 0).refusal({x, counting({2, 2, 1})}), "");
  EXPECT_NE(Op("Conv").list("strides", {0}).refusal({x, counting({2, 2, 1})}), "");
  EXPECT_NE(Op("Conv").list("pads", {-1, 0}).refusal({x, counting({2, 2, 1})}), "");
  EXPECT_NE(Op("Conv").refusal({x, counting({2, 2, 1}), counting({3})}), "");
}

TEST(ConvTranspose, AddsTheKernelForEachElement) {
  const Tensor x = floats({1, 1, 3}, {1, 2, 3});
  const Tensor w = floats({1, 1, 2}, {1, 10});
  expect_equal(Op("ConvTranspose").run({x, w}), floats({1, 1, 4}, {1, 12, 23, 30}));
  expect_equal(Op("ConvTranspose").list("strides", {2}).run({x, w}), floats({1, 1, 6}, {1, 10, 2, 20, 3, 30}));
  expect_equal(Op("ConvTranspose").list("strides", {2}).list("output_shape", {5}).run({x, w}).reshaped({5}),
               floats({5}, {10, 2, 20, 3, 30}));
  expect_equal(Op("ConvTranspose").list("pads", {1, 1}).run({x, w}), floats({1, 1, 2}, {12, 23}));
}

TEST(Pool, ComputesMaximumOrMean) {
  const Tensor x = floats({1, 1, 5}, {1, 5, 2, 4, 3});
  const std::vector<Tensor> most = Op("MaxPool").list("kernel_shape", {2}).list("strides", {2}).outputs(2).all({x});
  expect_equal(most[0], floats({1, 1, 2}, {5, 4}));
  expect_equal(most[1], ints({1, 1, 2}, {1, 3}));
  expect_equal(Op("MaxPool").list("kernel_shape", {2}).list("strides", {2}).set("ceil_mode", 1).run({x}), floats({1, 1, 3}, {5, 4, 3}));
  expect_equal(Op("AveragePool").list("kernel_shape", {2}).list("pads", {1, 0}).run({x}), floats({1, 1, 5}, {1, 3, 3.5f, 3, 3.5f}));
  expect_equal(Op("AveragePool").list("kernel_shape", {2}).list("pads", {1, 0}).set("count_include_pad", 1).run({x}),
               floats({1, 1, 5}, {0.5f, 3, 3.5f, 3, 3.5f}));
  expect_equal(Op("GlobalAveragePool").run({x}), floats({1, 1, 1}, {3}));
  expect_equal(Op("GlobalMaxPool").run({x}), floats({1, 1, 1}, {5}));
}

TEST(Resize, ScaleOneIsTheIdentityInEveryMode) {
  const Tensor x = counting({1, 1, 3, 4});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    expect_equal(Op("Resize").set("mode", mode).run({x, Tensor(), floats({4}, {1, 1, 1, 1})}), x);
    expect_equal(Op("Resize").set("mode", mode).run({x, Tensor(), Tensor(), ints({1, 1, 3, 4})}), x);
  }
}

TEST(Resize, NearestRepeatsAndLinearInterpolates) {
  const Tensor x = floats({1, 1, 2}, {0, 4});
  expect_equal(Op("Resize").run({x, Tensor(), floats({3}, {1, 1, 2})}), floats({1, 1, 4}, {0, 0, 4, 4}));
  expect_equal(Op("Resize").set("mode", "linear").run({x, Tensor(), Tensor(), ints({1, 1, 4})}), floats({1, 1, 4}, {0, 1, 3, 4}));
  expect_equal(Op("Upsample", 7).list_of_floats("scales", {1, 1, 2}).run({x}), floats({1, 1, 4}, {0, 0, 4, 4}));
  EXPECT_NE(Op("Resize").refusal({x, Tensor(), floats({2}, {1, 1})}), "");
}

TEST(GridSample, IdentityGridGivesTheImage) {
  const Tensor x = counting({1, 1, 3, 3});
  const Tensor grid = floats({1, 3, 3, 2}, {-1, -1, 0, -1, 1, -1, -1, 0, 0, 0, 1, 0, -1, 1, 0, 1, 1, 1});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    expect_near(Op("GridSample").set("mode", mode).set("align_corners", 1).run({x, grid}), x);
  }
}

TEST(Recurrent, ReverseLstmEqualsForwardOnTheReversedSequence) {
  const Tensor x = counting({3, 1, 2}, 5);
  const Tensor reversed = Op("Slice").run({x, ints({-1}), ints({-100}), ints({0}), ints({-1})});
  const Tensor w = counting({1, 4, 2}, 9);
  const Tensor r = counting({1, 4, 1}, 7);
  const std::vector<Tensor> backward = Op("LSTM").set("hidden_size", 1).set("direction", "reverse").outputs(3).all({x, w, r});
  const std::vector<Tensor> forward = Op("LSTM").set("hidden_size", 1).outputs(3).all({reversed, w, r});
  expect_equal(backward[1], forward[1]);
  expect_equal(backward[2], forward[2]);
}

}  // namespace
}  // namespace kvik::onnx::testing_support
