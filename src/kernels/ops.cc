#include "kernels/ops.h"

#include <algorithm>
#include <cmath>

namespace kvik {

bool operator==(const Rounding& a, const Rounding& b) { return a.step == b.step && a.low == b.low && a.high == b.high && a.unit == b.unit; }

float rounded(float x, const Rounding& rounding) {
  return std::clamp(std::nearbyint(x / rounding.step), rounding.low, rounding.high) * rounding.unit;
}

}  // namespace kvik
