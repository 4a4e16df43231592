#include "base/deterministic_math.h"

#include <limits>

namespace kvik {

double deterministic_log(double x) {
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (x == 0.0) return -kInfinity;
  if (!(x > 0.0)) return std::numeric_limits<double>::quiet_NaN();
  if (x == kInfinity) return x;
  int64_t exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  constexpr uint64_t kHalfRoot = 0x3fe6a09e667f3bcd;  // sqrt(1/2): the mantissa is taken from [sqrt(1/2), sqrt(2))
  const uint64_t above = std::bit_cast<uint64_t>(x) - kHalfRoot;
  exponent += static_cast<int64_t>(above) >> 52;
  const double mantissa = std::bit_cast<double>((above & 0x000fffffffffffff) + kHalfRoot);
  // log(1 + f) = 2 atanh(s) with s = f / (2 + f), written so that f, the largest term, is added last and is exact.
  const double f = mantissa - 1.0;
  const double s = f / (2.0 + f);
  const double t = s * s;
  double series = 2.0 / 25.0;
  for (int odd = 23; odd >= 3; odd -= 2) series = series * t + 2.0 / odd;
  series *= t;
  const double half_square = 0.5 * f * f;
  const double n = static_cast<double>(exponent);
  return n * kLn2High - ((half_square - (s * (half_square + series) + n * kLn2Low)) - f);
}

double deterministic_pow(double base, double exponent) {
  const bool small_integer = exponent >= -64.0 && exponent <= 64.0 && exponent == static_cast<double>(static_cast<int>(exponent));
  if (!small_integer) return deterministic_exp(exponent * deterministic_log(base));
  double power = 1.0;
  for (int i = 0; i < (exponent < 0 ? -exponent : exponent); ++i) power *= base;
  return exponent < 0 ? 1.0 / power : power;
}

}  // namespace kvik
