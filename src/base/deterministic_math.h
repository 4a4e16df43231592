#pragma once

#include <bit>
#include <cstdint>

namespace kvik {

// exp, log and pow with the same bits on every machine and compiler, which the C library does not guarantee.
// They use only +, -, *, / and the bits of a double, in a fixed order, without fused multiply-add.

// Error below 1 ulp (of the smallest number if the result is subnormal).
// exp(-inf) = 0, exp(inf) = inf, exp(nan) = nan. Inline and without branches, so that a loop over it is vectorized.
inline double deterministic_exp(double x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 32 bits, so that its product with a small integer is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kRound = 0x1.8p52;  // adding this rounds a number to an integer, in the low bits
  x = x < -746.0 ? -746.0 : x;
  x = x > 710.0 ? 710.0 : x;
  const double rounded = x * kLog2E + kRound;
  const double n = rounded - kRound;
  const double high = x - n * kLn2High;  // exact
  const double low = n * kLn2Low;
  const double r = high - low;    // |r| <= ln(2) / 2
  double p = 1.0 / 6227020800.0;  // Taylor series: the first omitted term is below 2^-57
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = 1.0 + (high + (p * (r * r) - low));
  // 2^n in two factors, since n reaches below the smallest normal exponent and one above the largest.
  const double halved = n * 0.5 + kRound;
  const int64_t whole = std::bit_cast<int64_t>(rounded) - std::bit_cast<int64_t>(kRound);
  const int64_t half = std::bit_cast<int64_t>(halved) - std::bit_cast<int64_t>(kRound);
  const double first = std::bit_cast<double>(static_cast<uint64_t>(half + 1023) << 52);
  const double second = std::bit_cast<double>(static_cast<uint64_t>(whole - half + 1023) << 52);
  return p * first * second;
}

// Error below 1 ulp. log(0) = -inf, log(inf) = inf, log(negative) = log(nan) = nan.
double deterministic_log(double x);

// base^exponent for a finite base > 0. Exact if the exponent is an integer of magnitude at most 64 and the intermediate powers can be
// represented; otherwise the error is below |exponent * log(base)| + 2 ulp.
double deterministic_pow(double base, double exponent);

}  // namespace kvik
