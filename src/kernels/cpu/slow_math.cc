#include "kernels/cpu/slow_math.h"

#include <cmath>

#include "kernels/cpu/body/common.h"

namespace kvik::cpu {

void slow_sin(float* x) {
  for (int i = 0; i < kLanes; ++i) x[i] = static_cast<float>(std::sin(static_cast<double>(x[i])));
}

void slow_cos(float* x) {
  for (int i = 0; i < kLanes; ++i) x[i] = static_cast<float>(std::cos(static_cast<double>(x[i])));
}

void slow_pow(float* base, const float* exponent) {
  for (int i = 0; i < kLanes; ++i) base[i] = static_cast<float>(std::pow(static_cast<double>(base[i]), static_cast<double>(exponent[i])));
}

}  // namespace kvik::cpu
