#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "tensor/small_float.h"

namespace kvik {
namespace {

TEST(SmallFloat, EveryHalfSurvivesARoundTrip) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    Half half;
    half.bits = static_cast<uint16_t>(code);
    const float value = half;
    const float generic = decode_small_float(code, 5, 10, 15, Specials::kIeee);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(generic));
      ASSERT_TRUE(std::isnan(static_cast<float>(Half(value))));
      continue;
    }
    ASSERT_EQ(value, generic) << code;
    ASSERT_EQ(Half(value).bits, code);
  }
}

TEST(SmallFloat, HalfRoundsLikeTheGenericEncoder) {
  uint32_t state = 1;
  for (int i = 0; i < 200000; ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = std::bit_cast<float>(state);
    if (std::isnan(value)) continue;
    ASSERT_EQ(Half(value).bits, encode_small_float(value, 5, 10, 15, Specials::kIeee, false)) << value;
  }
}

template <class T>
void expect_round_trips() {
  for (uint32_t code = 0; code < 256; ++code) {
    T small;
    small.bits = static_cast<uint8_t>(code);
    const float value = small;
    if (std::isnan(value)) continue;
    EXPECT_EQ(T::cast(value, false).bits, code) << value;
  }
}

TEST(SmallFloat, EveryEightBitFloatSurvivesARoundTrip) {
  expect_round_trips<Float8E4M3FN>();
  expect_round_trips<Float8E4M3FNUZ>();
  expect_round_trips<Float8E5M2>();
  expect_round_trips<Float8E5M2FNUZ>();
}

TEST(SmallFloat, KnownCodesHaveKnownValues) {
  Float8E4M3FN largest;
  largest.bits = 0x7e;
  EXPECT_EQ(static_cast<float>(largest), 448.0f);
  Float8E5M2 infinity;
  infinity.bits = 0x7c;
  EXPECT_EQ(static_cast<float>(infinity), std::numeric_limits<float>::infinity());
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f)), 1.0f);
  EXPECT_EQ(decode_f4e2m1(0xf), -6.0f);
  EXPECT_EQ(encode_f4e2m1(2.5f), 4);  // half way between 2 and 3: the even code
}

TEST(SmallFloat, OverflowSaturatesOnlyIfAsked) {
  EXPECT_EQ(Float8E4M3FN::cast(1e6f, true).bits, 0x7e);
  EXPECT_EQ(Float8E4M3FN::cast(1e6f, false).bits, 0x7f);
  EXPECT_EQ(Float8E5M2::cast(-1e6f, false).bits, 0xfc);
  EXPECT_EQ(Float8E4M3FNUZ::cast(1e6f, false).bits, 0x80);
}

}  // namespace
}  // namespace kvik
