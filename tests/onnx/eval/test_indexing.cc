#include <gtest/gtest.h>

#include "onnx/eval/op.h"

namespace kvik::onnx::testing_support {
namespace {

TEST(Indexing, GatherSupportsAllAxesAndNegativeIndices) {
  const Tensor x = counting({2, 3});
  expect_equal(Op("Gather").run({x, ints({1, -2})}), floats({2, 3}, {3, 4, 5, 0, 1, 2}));
  expect_equal(Op("Gather").set("axis", 1).run({x, ints({}, {2})}), floats({2}, {2, 5}));
  EXPECT_NE(Op("Gather").refusal({x, ints({2})}).find("index 2"), std::string::npos);
  EXPECT_NE(Op("Gather").refusal({x, ints({-3})}), "");
}

TEST(Indexing, ScatterElementsInvertsGatherElements) {
  const Tensor x = counting({3, 3});
  const Tensor places = ints({2, 3}, {2, 0, 1, 0, 2, -1});
  const Tensor taken = Op("GatherElements").run({x, places});
  expect_equal(taken, floats({2, 3}, {6, 1, 5, 0, 7, 8}));
  expect_equal(Op("ScatterElements").run({x, places, taken}), x);
  expect_equal(Op("Scatter", 9).run({x, places, taken}), x);
}

TEST(Indexing, ScatterNdInvertsGatherNd) {
  const Tensor x = counting({2, 3, 2});
  const Tensor places = ints({2, 2}, {1, 0, 0, -1});
  const Tensor taken = Op("GatherND").run({x, places});
  expect_equal(taken, floats({2, 2}, {6, 7, 4, 5}));
  expect_equal(Op("ScatterND").run({x, places, taken}), x);
  EXPECT_NE(Op("GatherND").refusal({x, ints({1, 2}, {2, 0})}), "");
  EXPECT_NE(Op("ScatterND").refusal({x, places, counting({2, 3})}), "");
}

TEST(Indexing, GatherNdSupportsBatchAxes) {
  const Tensor x = counting({2, 3});
  expect_equal(Op("GatherND").set("batch_dims", 1).run({x, ints({2, 1}, {1, 2})}), floats({2}, {1, 5}));
}

TEST(Indexing, ScatterSupportsReductions) {
  const Tensor x = floats({2}, {1, 10});
  const Tensor places = ints({0, 0, 1});
  const Tensor updates = floats({3}, {2, 3, 4});
  const std::pair<const char*, std::vector<float>> cases[] = {{"add", {6, 14}}, {"mul", {6, 40}}, {"max", {3, 10}}, {"min", {1, 4}}};
  for (const auto& [reduction, expected] : cases) {
    EXPECT_EQ(values<float>(Op("ScatterElements").set("reduction", reduction).run({x, places, updates})), expected) << reduction;
  }
}

TEST(Indexing, TopKPrefersTheLowerIndexAmongEquals) {
  const Tensor x = floats({2, 4}, {1, 3, 3, 2, 0, 0, 0, 0});
  const std::vector<Tensor> found = Op("TopK").outputs(2).all({x, ints({2})});
  expect_equal(found[0], floats({2, 2}, {3, 3, 0, 0}));
  expect_equal(found[1], ints({2, 2}, {1, 2, 0, 1}));
  const std::vector<Tensor> least = Op("TopK").set("largest", 0).set("axis", 0).outputs(2).all({x, ints({1})});
  expect_equal(least[1], ints({1, 4}, {1, 1, 1, 1}));
  expect_equal(Op("TopK", 1).set("k", 1).run({x}), floats({2, 1}, {3, 0}));
  EXPECT_NE(Op("TopK").refusal({x, ints({5})}), "");
}

TEST(Indexing, ArgMaxSelectsTheFirstByDefault) {
  const Tensor x = floats({1, 4}, {1, 3, 3, 2});
  expect_equal(Op("ArgMax").set("axis", 1).run({x}), ints({1, 1}, {1}));
  expect_equal(Op("ArgMax").set("axis", 1).set("select_last_index", 1).set("keepdims", 0).run({x}), ints({2}));
  expect_equal(Op("ArgMin").set("axis", -1).set("keepdims", 0).run({x}), ints({0}));
  EXPECT_NE(Op("ArgMax").refusal({Tensor(DType::kF32, {0})}), "");
}

TEST(Indexing, NonZeroHasOneRowPerAxis) {
  expect_equal(Op("NonZero").run({ints({2, 2}, {1, 0, 0, 5})}), ints({2, 2}, {0, 1, 0, 1}));
  EXPECT_EQ(Op("NonZero").run({ints({}, {3})}).dims(), (Dims{0, 1}));
}

TEST(Indexing, OneHotIgnoresIndicesOutOfRange) {
  const Tensor hot = Op("OneHot").run({ints({1, -1, 7}), ints({}, {3}), floats({2}, {0, 1})});
  expect_equal(hot, floats({3, 3}, {0, 1, 0, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(Op("OneHot").set("axis", 0).run({ints({1, 2}), ints({}, {3}), floats({2}, {0, 1})}).dims(), (Dims{3, 2}));
}

TEST(Indexing, CumSumSupportsReverseAndExclusive) {
  const Tensor x = ints({1, 2, 3});
  const Tensor axis = ints({}, {0});
  expect_equal(Op("CumSum").run({x, axis}), ints({1, 3, 6}));
  expect_equal(Op("CumSum").set("exclusive", 1).run({x, axis}), ints({0, 1, 3}));
  expect_equal(Op("CumSum").set("reverse", 1).run({x, axis}), ints({6, 5, 3}));
  expect_equal(Op("CumProd", 26).set("exclusive", 1).set("reverse", 1).run({x, axis}), ints({6, 3, 1}));
}

TEST(Indexing, TriluKeepsOneSideOfADiagonal) {
  const Tensor x = floats({2, 3}, {1, 1, 1, 1, 1, 1});
  expect_equal(Op("Trilu").run({x, ints({}, {1})}), floats({2, 3}, {0, 1, 1, 0, 0, 1}));
  expect_equal(Op("Trilu").set("upper", 0).run({x}), floats({2, 3}, {1, 0, 0, 1, 1, 0}));
  expect_equal(Op("Trilu").set("upper", 0).run({x, ints({}, {-100})}), Tensor(DType::kF32, {2, 3}));
}

TEST(Indexing, RangeStopsBeforeItsLimit) {
  const auto number = [](int64_t x) { return ints({}, {x}); };
  expect_equal(Op("Range").run({number(1), number(7), number(3)}), ints({1, 4}));
  expect_equal(Op("Range").run({number(3), number(0), number(-2)}), ints({3, 1}));
  EXPECT_EQ(Op("Range").run({number(3), number(0), number(2)}).dims(), (Dims{0}));
  expect_equal(Op("Range").run({floats({}, {0}), floats({}, {1}), floats({}, {0.4f})}), floats({3}, {0, 0.4f, 0.8f}));
  EXPECT_NE(Op("Range").refusal({number(0), number(5), number(0)}), "");
}

TEST(Indexing, ShapeSupportsStartAndEnd) {
  const Tensor x = counting({2, 3, 4});
  expect_equal(Op("Shape").run({x}), ints({2, 3, 4}));
  expect_equal(Op("Shape", 15).set("start", -2).set("end", -1).run({x}), ints({3}));
  EXPECT_EQ(Op("Shape", 15).set("start", 2).set("end", 1).run({x}).dims(), (Dims{0}));
  expect_equal(Op("Size").run({x}), Tensor::scalar<int64_t>(24));
}

TEST(Indexing, ConstantSupportsEveryKindOfAttribute) {
  expect_equal(Op("Constant").set("value_float", 2.5f).run({}), Tensor::scalar(2.5f));
  expect_equal(Op("Constant").list("value_ints", {1, 2}).run({}), ints({1, 2}));
  expect_equal(Op("Constant").set("value_string", "word").run({}), Tensor::scalar(std::string("word")));
  EXPECT_NE(Op("Constant").refusal({}), "");
  expect_equal(Op("ConstantOfShape").run({ints({2})}), floats({2}, {0, 0}));
  expect_equal(Op("EyeLike").set("k", 1).run({Tensor(DType::kF32, {2, 3})}), floats({2, 3}, {0, 1, 0, 0, 0, 1}));
}

TEST(Indexing, CompressSelectsByCondition) {
  expect_equal(Op("Compress").set("axis", 1).run({counting({2, 2}), bools({2}, {false, true})}), floats({2, 1}, {1, 3}));
  expect_equal(Op("Compress").run({counting({2, 2}), bools({3}, {true, false, true})}), floats({2}, {0, 2}));
}

}  // namespace
}  // namespace kvik::onnx::testing_support
