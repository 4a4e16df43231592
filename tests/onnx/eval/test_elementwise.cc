#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "onnx/eval/op.h"

namespace kvik::onnx::testing_support {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Elementwise, ShapesBroadcastFromTheLastAxis) {
  const Tensor sum = Op("Add").run({ints({2, 1}, {10, 20}), ints({3}, {1, 2, 3})});
  expect_equal(sum, ints({2, 3}, {11, 12, 13, 21, 22, 23}));
}

TEST(Elementwise, ShapesThatDoNotBroadcastAreRefused) {
  EXPECT_NE(Op("Add").refusal({ints({2}, {1, 2}), ints({3}, {1, 2, 3})}).find("[2] and [3]"), std::string::npos);
}

TEST(Elementwise, SecondOperandIsAlignedAtAnAxisBeforeOpset7) {
  const Tensor sum = Op("Add", 6).set("broadcast", 1).set("axis", 0).run({floats({2, 3}, {0, 0, 0, 0, 0, 0}), floats({2}, {1, 2})});
  expect_equal(sum, floats({2, 3}, {1, 1, 1, 2, 2, 2}));
}

TEST(Elementwise, IntegersWrapAround) {
  const Tensor most = Tensor::of<int32_t>({1}, {std::numeric_limits<int32_t>::max()});
  const Tensor least = Tensor::of<int32_t>({1}, {std::numeric_limits<int32_t>::min()});
  const Tensor one = Tensor::of<int32_t>({1}, {1});
  const Tensor minus_one = Tensor::of<int32_t>({1}, {-1});
  expect_equal(Op("Add").run({most, one}), least);
  expect_equal(Op("Sub").run({least, one}), most);
  expect_equal(Op("Mul").run({least, minus_one}), least);
  expect_equal(Op("Div").run({least, minus_one}), least);
  expect_equal(Op("Abs").run({least}), least);
  expect_equal(Op("Neg").run({least}), least);
}

TEST(Elementwise, IntegerDivisionTruncatesAndRefusesZero) {
  expect_equal(Op("Div").run({ints({-7, 7}), ints({2, -2})}), ints({-3, -3}));
  EXPECT_NE(Op("Div").refusal({ints({1}), ints({0})}), "");
  EXPECT_NE(Op("Mod").refusal({ints({1}), ints({0})}), "");
}

TEST(Elementwise, ModHasTheSignOfTheDivisorAndFmodThatOfTheDividend) {
  expect_equal(Op("Mod").run({ints({-4, 7, 5, 4, -7}), ints({2, -3, 8, -2, 3})}), ints({0, -2, 5, 0, 2}));
  expect_equal(Op("Mod").set("fmod", 1).run({ints({-4, 7, 5, 4, -7}), ints({2, -3, 8, -2, 3})}), ints({0, 1, 5, 0, -1}));
}

TEST(Elementwise, PowKeepsTheTypeOfTheBase) {
  expect_equal(Op("Pow").run({ints({2, 3}), Tensor::of<float>({2}, {3.0f, 2.0f})}), ints({8, 9}));
  expect_equal(Op("Pow").run({floats({2}, {4, 9}), ints({2, 2})}), floats({2}, {16, 81}));
  expect_equal(Op("Pow").run({ints({3, -1}), ints({40, 3})}), ints({-6289078614652622815, -1}));
}

TEST(Elementwise, HalfIsComputedInFloatAndRoundedOnce) {
  const Tensor a = Tensor::of<Half>({1}, {Half(1024.0f)});
  const Tensor b = Tensor::of<Half>({1}, {Half(0.75f)});
  EXPECT_EQ(static_cast<float>(Op("Add").run({a, b}).data<Half>()[0]), 1025.0f);
  const Tensor c = Tensor::of<BFloat16>({1}, {BFloat16(3.0f)});
  const Tensor root = Op("Sqrt").run({c});
  EXPECT_EQ(root.dtype(), DType::kBF16);
  EXPECT_EQ(root.data<BFloat16>()[0].bits, BFloat16(std::sqrt(3.0f)).bits);
}

TEST(Elementwise, MaxAndMinPropagateNan) {
  const float nan = std::nanf("");
  const Tensor found = Op("Max").run({floats({2}, {nan, 1}), floats({2}, {1, nan})});
  EXPECT_TRUE(std::isnan(found.data<float>()[0]) && std::isnan(found.data<float>()[1]));
  expect_equal(Op("Min").run({floats({3}, {1, 5, 3}), floats({}, {2}), floats({3}, {4, 0, 9})}), floats({3}, {1, 0, 2}));
}

TEST(Elementwise, RoundsHalfToEven) {
  expect_equal(Op("Round").run({floats({5}, {0.5f, 1.5f, 2.5f, -0.5f, -1.5f})}), floats({5}, {0, 2, 2, -0.0f, -2}));
}

TEST(Elementwise, ClipUsesAttributesBeforeOpset11AndInputsSince) {
  const Tensor x = floats({3}, {-2, 0, 2});
  expect_equal(Op("Clip", 6).set("min", -1.0f).set("max", 1.0f).run({x}), floats({3}, {-1, 0, 1}));
  expect_equal(Op("Clip", 12).run({x, Tensor::scalar(-1.0f), Tensor()}), floats({3}, {-1, 0, 2}));
  expect_equal(Op("Clip", 13).run({ints({-2, 5}), Tensor(), Tensor::scalar<int64_t>(3)}), ints({-2, 3}));
}

TEST(Elementwise, ShiftsByMoreThanTheWidthGiveZero) {
  const Tensor x = Tensor::of<uint8_t>({3}, {1, 128, 255});
  const Tensor n = Tensor::of<uint8_t>({3}, {8, 7, 200});
  expect_equal(Op("BitShift").set("direction", "RIGHT").run({x, n}), Tensor::of<uint8_t>({3}, {0, 1, 0}));
  expect_equal(Op("BitShift").set("direction", "LEFT").run({x, n}), Tensor::of<uint8_t>({3}, {0, 0, 0}));
}

TEST(Elementwise, WhereSupportsAllTypes) {
  const Tensor a = Tensor::of<std::string>({1}, {"yes"});
  const Tensor b = Tensor::of<std::string>({2}, {"no", "never"});
  expect_equal(Op("Where").run({bools({2}, {true, false}), a, b}), Tensor::of<std::string>({2}, {"yes", "never"}));
}

TEST(Elementwise, ComparisonsOfNanAreFalse) {
  const Tensor nan = floats({1}, {std::nanf("")});
  for (const char* op : {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}) {
    expect_equal(Op(op).run({nan, nan}), bools({1}, {false}));
  }
  expect_equal(Op("IsNaN").run({nan}), bools({1}, {true}));
  expect_equal(Op("IsInf").set("detect_negative", 0).run({floats({3}, {kInf, -kInf, 1})}), bools({3}, {true, false, false}));
}

struct Case {
  const char* op;
  float x;
  float expected;
};

TEST(Activation, HasTheSpecifiedValue) {
  const Case cases[] = {
      {"Sigmoid", 0.0f, 0.5f},         {"Sigmoid", -1000.0f, 0.0f}, {"Relu", -1.0f, 0.0f},       {"LeakyRelu", -1.0f, -0.01f},
      {"Elu", -1.0f, -0.63212056f},    {"Selu", 1.0f, 1.050701f},   {"Softplus", 1000.0f, 1000}, {"Softplus", 0.0f, 0.6931472f},
      {"Softsign", 1.0f, 0.5f},        {"HardSigmoid", 0.0f, 0.5f}, {"HardSwish", 3.0f, 3.0f},   {"Mish", 1.0f, 0.86509836f},
      {"ThresholdedRelu", 1.0f, 0.0f}, {"Gelu", 1.0f, 0.8413447f},  {"Celu", -1.0f, -0.63212f},  {"Tanh", 0.5f, 0.46211716f},
      {"Erf", 1.0f, 0.84270079f},      {"Reciprocal", 4.0f, 0.25f}, {"Sign", -3.0f, -1.0f},      {"Ceil", 0.2f, 1.0f},
      {"Shrink", 0.4f, 0.0f},
  };
  for (const Case& c : cases) {
    EXPECT_NEAR(Op(c.op).run({floats({1}, {c.x})}).data<float>()[0], c.expected, 1e-5f) << c.op << "(" << c.x << ")";
  }
}

}  // namespace
}  // namespace kvik::onnx::testing_support
