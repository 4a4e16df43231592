#include "support/host_device/tensor_core.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace kvik::testing_support {
namespace {

constexpr int kProducts = 16, kSmallest = -126;

struct Parts {
  int mantissa;  // with 10 fractional bits
  int exponent;
};

Parts parts_of(uint16_t half) {
  const int exponent = half >> 10 & 31, hidden = exponent != 0, sign = half >> 15;
  const int mantissa = (half & 1023) | (hidden << 10);
  return {(mantissa ^ -sign) + sign, exponent + 1 - hidden - 15};
}

bool is_special(uint16_t half) { return (half & 0x7c00) == 0x7c00; }

// An infinity or NaN is among the operands.
float special_sum(const uint16_t* a, const uint16_t* b, float sum) {
  double total = sum;
  const auto value = [](uint16_t half) -> double {
    if (!is_special(half)) return static_cast<double>(parts_of(half).mantissa);
    if ((half & 1023) != 0) return std::numeric_limits<double>::quiet_NaN();
    const double infinite = std::numeric_limits<double>::infinity();
    return (half & 0x8000) != 0 ? -infinite : infinite;
  };
  for (int i = 0; i < kProducts; ++i) {
    const double product = value(a[i]) * value(b[i]);
    if (!std::isfinite(product)) total += product;
  }
  return static_cast<float>(total);
}

int64_t shifted(int64_t magnitude, int by) { return by > 62 ? 0 : magnitude >> by; }

}  // namespace

float tensor_core_sum(const uint16_t* a, const uint16_t* b, float sum) {
  bool special = !std::isfinite(sum);
  for (int i = 0; i < kProducts; ++i) special = special || is_special(a[i]) || is_special(b[i]);
  if (special) return special_sum(a, b, sum);

  int products[kProducts], exponents[kProducts];
  const auto bits = std::bit_cast<uint32_t>(sum);
  const int biased = static_cast<int>(bits >> 23 & 255);
  const int64_t mantissa = (bits & 0x7fffff) | (biased != 0 ? 0x800000 : 0);
  const int exponent = mantissa == 0 ? kSmallest : (biased != 0 ? biased : 1) - 127;
  int largest = exponent;
  for (int i = 0; i < kProducts; ++i) {
    const Parts x = parts_of(a[i]), y = parts_of(b[i]);
    products[i] = x.mantissa * y.mantissa;
    exponents[i] = (x.mantissa == 0 ? kSmallest : x.exponent) + (y.mantissa == 0 ? kSmallest : y.exponent);
    largest = exponents[i] > largest ? exponents[i] : largest;
  }
  int64_t total = 0;
  for (int i = 0; i < kProducts; ++i) {
    const int v = largest - exponents[i] > 30 ? 0 : (std::abs(products[i]) << 5) >> (largest - exponents[i]);
    total += products[i] < 0 ? -v : v;
  }
  const int64_t v = shifted(mantissa << 2, largest - exponent);
  total += bits >> 31 != 0 ? -v : v;
  if (total == 0) return 0.0f;
  auto magnitude = static_cast<uint64_t>(std::abs(total));
  const int extra = 63 - std::countl_zero(magnitude) - 23;
  if (extra > 0) magnitude = magnitude >> extra << extra;  // toward zero
  const float result = std::ldexp(static_cast<float>(magnitude), largest - 25);
  return total < 0 ? -result : result;
}

float tensor_core_chain(const uint16_t* a, const uint16_t* b, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = 0; i < n; i += kProducts) sum = tensor_core_sum(a + i, b + i, sum);
  return sum;
}

}  // namespace kvik::testing_support
