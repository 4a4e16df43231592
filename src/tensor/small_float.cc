#include "tensor/small_float.h"

#include <array>
#include <cmath>
#include <limits>

namespace kvik {
namespace {

constexpr std::array<float, 8> kE2M1 = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

struct Layout {
  uint32_t nan_code;
  uint32_t infinity_code;   // equal to nan_code if there is no infinity
  uint32_t largest_finite;  // magnitude code
};

Layout layout_of(int exponent_bits, int mantissa_bits, Specials specials) {
  const uint32_t top = (1u << (exponent_bits + mantissa_bits)) - 1;  // all magnitude bits set
  const uint32_t exponent_mask = top & ~((1u << mantissa_bits) - 1);
  switch (specials) {
    case Specials::kIeee: return {exponent_mask | (1u << (mantissa_bits - 1)), exponent_mask, exponent_mask - 1};
    case Specials::kNanOnly: return {top, top, top - 1};
    case Specials::kNanIsNegative0: break;
  }
  return {top + 1, top + 1, top};
}

// Magnitude code of a finite, non-negative value, rounded to nearest even; may exceed the largest finite code.
uint32_t round_magnitude(double magnitude, int mantissa_bits, int bias) {
  if (magnitude == 0) return 0;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = m * 2^exponent, 0.5 <= m < 1
  const int unbiased = std::max(exponent - 1, 1 - bias);
  // One unit in the last place at this exponent; subnormals share that of the smallest normal.
  const double steps = std::nearbyint(std::ldexp(magnitude, mantissa_bits - unbiased));
  const auto code = static_cast<uint32_t>(steps);
  const uint32_t implicit_one = 1u << mantissa_bits;
  if (code < implicit_one) return code;  // subnormal
  return code - implicit_one + (static_cast<uint32_t>(unbiased + bias) << mantissa_bits);
}

}  // namespace

float decode_small_float(uint32_t code, int exponent_bits, int mantissa_bits, int bias, Specials specials) {
  const uint32_t sign_bit = 1u << (exponent_bits + mantissa_bits);
  const Layout layout = layout_of(exponent_bits, mantissa_bits, specials);
  const uint32_t magnitude = code & (sign_bit - 1);
  const float sign = (code & sign_bit) != 0 ? -1.0f : 1.0f;
  if (specials == Specials::kNanIsNegative0) {
    if (code == layout.nan_code) return std::numeric_limits<float>::quiet_NaN();
  } else if (magnitude > layout.largest_finite) {
    if (magnitude == layout.infinity_code && specials == Specials::kIeee) return sign * std::numeric_limits<float>::infinity();
    return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
  }
  const int exponent = static_cast<int>(magnitude >> mantissa_bits);
  const auto mantissa = static_cast<float>(magnitude & ((1u << mantissa_bits) - 1));
  const float one = static_cast<float>(1u << mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(one + mantissa, exponent - bias - mantissa_bits);
}

uint32_t encode_small_float(float value, int exponent_bits, int mantissa_bits, int bias, Specials specials, bool saturate) {
  const Layout layout = layout_of(exponent_bits, mantissa_bits, specials);
  const uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
  const bool unsigned_nan = specials == Specials::kNanIsNegative0;
  if (std::isnan(value)) return unsigned_nan ? layout.nan_code : sign | layout.nan_code;
  const uint32_t overflow = saturate ? sign | layout.largest_finite : (unsigned_nan ? layout.nan_code : sign | layout.infinity_code);
  if (std::isinf(value)) return overflow;
  const uint32_t magnitude = round_magnitude(std::fabs(static_cast<double>(value)), mantissa_bits, bias);
  if (magnitude > layout.largest_finite) return overflow;
  if (unsigned_nan && magnitude == 0) return 0;  // negative zero would read as NaN
  return sign | magnitude;
}

Half::Half(float value) {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (x >> 16) & 0x8000u;
  const uint32_t magnitude = x & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    bits = static_cast<uint16_t>(sign | 0x7e00u);
  } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
    bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (magnitude < 0x38800000u) {  // subnormal: let the float adder round at the right place
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  } else {
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
}

Half::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

BFloat16::BFloat16(float value) {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const bool nan = (x & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = nan ? x | 0x400000u : x + 0x7fffu + ((x >> 16) & 1u);
  bits = static_cast<uint16_t>(rounded >> 16);
}

Float8E8M0::operator float() const {
  if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, static_cast<int>(bits) - 127);
}

float decode_f4e2m1(uint8_t nibble) {
  const float magnitude = kE2M1[nibble & 7u];
  return (nibble & 8u) != 0 ? -magnitude : magnitude;
}

uint8_t encode_f4e2m1(float value) {
  const uint8_t sign = std::signbit(value) ? 8 : 0;
  if (std::isnan(value)) return 8;
  if (std::isinf(value)) return static_cast<uint8_t>(sign | 7u);
  const uint32_t magnitude = round_magnitude(std::fabs(static_cast<double>(value)), 1, 1);
  return static_cast<uint8_t>(sign | std::min(magnitude, 7u));
}

}  // namespace kvik
