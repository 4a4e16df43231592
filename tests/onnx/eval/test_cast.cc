#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "onnx/eval/op.h"
#include "onnx/eval/ops/cast.h"

namespace kvik::onnx::testing_support {
namespace {

Tensor to(DType dtype, const Tensor& x) { return Op("Cast").set("to", static_cast<int>(dtype)).run({x}); }

TEST(Cast, EveryPairOfNumberTypesRoundTrips) {
  const Tensor small = floats({4}, {0, 1, 1, 0});
  for (int from = 1; from <= kLastDType; ++from) {
    for (int target = 1; target <= kLastDType; ++target) {
      const auto a = static_cast<DType>(from);
      const auto b = static_cast<DType>(target);
      const auto excluded = [](DType d) {
        return d == DType::kString || d == DType::kC64 || d == DType::kC128 || d == DType::kF8E8M0;  // the last has no zero
      };
      if (excluded(a) || excluded(b)) continue;
      expect_equal(to(DType::kF32, to(b, to(a, small))), small);
    }
  }
}

TEST(Cast, FloatsAreTruncatedAndClamped) {
  const float inf = std::numeric_limits<float>::infinity();
  expect_equal(to(DType::kI32, floats({5}, {1.9f, -1.9f, inf, -inf, std::nanf("")})),
               Tensor::of<int32_t>({5}, {1, -1, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min(), 0}));
  expect_equal(to(DType::kU8, floats({2}, {-1.0f, 300.0f})), Tensor::of<uint8_t>({2}, {255, 44}));
  expect_equal(to(DType::kI64, Tensor::of<double>({1}, {9.3e18})), ints({std::numeric_limits<int64_t>::max()}));
}

TEST(Cast, LargeIntegersStayExact) {
  const int64_t big = (int64_t{1} << 62) + 1;
  expect_equal(to(DType::kU64, ints({big})), Tensor::of<uint64_t>({1}, {static_cast<uint64_t>(big)}));
  expect_equal(to(DType::kI64, Tensor::of<uint64_t>({1}, {~uint64_t{0}})), ints({-1}));
}

TEST(Cast, DoublesAreRoundedToHalvesOnce) {
  // Just above the middle between 1 and the next half; through f32 it would fall on the middle and then to even.
  const double above = 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  EXPECT_EQ(static_cast<float>(to(DType::kF16, Tensor::scalar(above)).data<Half>()[0]), 1.0f + std::ldexp(1.0f, -10));
}

TEST(Cast, EightBitFloatsSaturateByDefault) {
  const Tensor x = floats({1}, {1e6f});
  EXPECT_EQ(static_cast<float>(to(DType::kF8E4M3FN, x).data<Float8E4M3FN>()[0]), 448.0f);
  const Tensor wild = Op("Cast").set("to", static_cast<int>(DType::kF8E4M3FN)).set("saturate", 0).run({x});
  EXPECT_TRUE(std::isnan(static_cast<float>(wild.data<Float8E4M3FN>()[0])));
}

TEST(Cast, PowersOfTwoUseTheRoundMode) {
  const Tensor x = floats({2}, {3.0f, 2.5f});
  const auto rounded = [&](const char* mode) {
    const Tensor y = Op("Cast", 24).set("to", static_cast<int>(DType::kF8E8M0)).set("round_mode", mode).run({x});
    return values<float>(cast(y, DType::kF32));
  };
  EXPECT_EQ(rounded("up"), (std::vector<float>{4, 4}));
  EXPECT_EQ(rounded("down"), (std::vector<float>{2, 2}));
  EXPECT_EQ(rounded("nearest"), (std::vector<float>{4, 2}));
}

TEST(Cast, StringsAreRefused) {
  EXPECT_NE(Op("Cast").set("to", static_cast<int>(DType::kF32)).refusal({Tensor::of<std::string>({1}, {"1.5"})}), "");
  EXPECT_NE(Op("Cast").set("to", static_cast<int>(DType::kString)).refusal({ints({1})}), "");
}

TEST(Cast, BitCastKeepsTheBits) {
  expect_equal(Op("BitCast").set("to", static_cast<int>(DType::kI32)).run({floats({1}, {1.0f})}), Tensor::of<int32_t>({1}, {0x3f800000}));
  EXPECT_NE(Op("BitCast").set("to", static_cast<int>(DType::kI64)).refusal({floats({1}, {1.0f})}), "");
}

TEST(Cast, UnknownTargetIsRefused) {
  EXPECT_NE(Op("Cast").set("to", 99).refusal({floats({1}, {1})}), "");
  EXPECT_NE(Op("Cast").refusal({floats({1}, {1})}), "");
}

}  // namespace
}  // namespace kvik::onnx::testing_support
