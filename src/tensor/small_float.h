#pragma once

#include <bit>
#include <cstdint>

namespace kvik {

// 16-bit and smaller floats as storage types: they convert to float exactly and from float by rounding to nearest, ties to even.

// How a format encodes infinity and NaN.
enum class Specials {
  kIeee,           // the top exponent holds infinities and NaNs
  kNanOnly,        // no infinity; all ones is NaN ("fn")
  kNanIsNegative0  // no infinity, no negative zero; its code is the only NaN ("fnuz")
};

float decode_small_float(uint32_t code, int exponent_bits, int mantissa_bits, int bias, Specials specials);

// saturate: values above the largest finite number become that number instead of infinity or NaN.
uint32_t encode_small_float(float value, int exponent_bits, int mantissa_bits, int bias, Specials specials, bool saturate);

struct Half {
  uint16_t bits = 0;
  Half() = default;
  Half(float value);
  operator float() const;
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BFloat16(float value);
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

template <int kExponentBits, int kMantissaBits, int kBias, Specials kSpecials>
struct Float8 {
  uint8_t bits = 0;
  Float8() = default;
  Float8(float value) : bits(static_cast<uint8_t>(encode_small_float(value, kExponentBits, kMantissaBits, kBias, kSpecials, true))) {}
  operator float() const { return decode_small_float(bits, kExponentBits, kMantissaBits, kBias, kSpecials); }

  static Float8 cast(float value, bool saturate) {
    Float8 result;
    result.bits = static_cast<uint8_t>(encode_small_float(value, kExponentBits, kMantissaBits, kBias, kSpecials, saturate));
    return result;
  }
};

using Float8E4M3FN = Float8<4, 3, 7, Specials::kNanOnly>;
using Float8E4M3FNUZ = Float8<4, 3, 8, Specials::kNanIsNegative0>;
using Float8E5M2 = Float8<5, 2, 15, Specials::kIeee>;
using Float8E5M2FNUZ = Float8<5, 2, 16, Specials::kNanIsNegative0>;

// A power of two: no sign, no mantissa, 0xFF is NaN.
struct Float8E8M0 {
  uint8_t bits = 0;
  Float8E8M0() = default;
  operator float() const;
};

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2 && sizeof(Float8E4M3FN) == 1 && sizeof(Float8E8M0) == 1);

// f4e2m1 has no code for infinity or NaN: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
float decode_f4e2m1(uint8_t nibble);
uint8_t encode_f4e2m1(float value);  // saturates; NaN becomes negative zero, as in ONNX's own tests

}  // namespace kvik
