#include "kernels/cpu/quantise_block.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kvik/error.h"
#include "tensor/small_float.h"

namespace kvik::cpu {
namespace {

// Of largest magnitude, with its sign; the first of several. Magnitudes are compared as integers, which is vector code.
float peak_of(std::span<const float> weights) {
  uint32_t largest = 0;
  for (const float w : weights) largest = std::max(largest, std::bit_cast<uint32_t>(w) & 0x7fffffffu);
  if (largest >= 0x7f800000u)
    throw Error(Code::kBadModel, "a weight is infinite or not a number; expected finite weights, so export the model again");
  const auto peak = std::ranges::find_if(weights, [&](float w) { return (std::bit_cast<uint32_t>(w) & 0x7fffffffu) == largest; });
  return peak == weights.end() ? 0.0f : *peak;
}

// To even, for |x| up to 2^22: the sum has no room for a fraction.
float rounded(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  return x + kMagic - kMagic;
}

float as_half(float scale) {
  const float rounded = Half(scale);
  if (std::isinf(rounded)) {
    throw Error(Code::kUnsupported, "a weight is too large to be quantised with a 16-bit scale; load the model with 32-bit weights");
  }
  return rounded;
}

void encode(std::span<const float> weights, float scale, int bias, int low, int high, std::span<int8_t> codes) {
  if (scale == 0.0f) {
    std::ranges::fill(codes, static_cast<int8_t>(bias));
    return;
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const float steps = rounded(std::clamp(weights[i] / scale, -256.0f, 256.0f));
    codes[i] = static_cast<int8_t>(std::clamp(static_cast<int>(steps) + bias, low, high));
  }
}

// The scale that fits the codes best: sum(w c) / sum(c c) with c = code - 8.
float refit(std::span<const float> weights, std::span<const int8_t> codes, float scale) {
  float wc = 0.0f, cc = 0.0f;
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto c = static_cast<float>(codes[i] - 8);
    wc += weights[i] * c;
    cc += c * c;
  }
  return cc == 0.0f || !std::isfinite(wc) ? scale : wc / cc;
}

}  // namespace

float quantise_block(std::span<const float> weights, int bits, std::span<int8_t> codes) {
  const float peak = peak_of(weights);
  if (bits == 8) {
    const float scale = as_half(std::fabs(peak) / 127.0f);
    encode(weights, scale, 0, -127, 127, codes);
    return scale;
  }
  float scale = as_half(peak / -8.0f);
  encode(weights, scale, 8, 0, 15, codes);
  if (scale == 0.0f) return scale;
  scale = as_half(refit(weights, codes, scale));
  encode(weights, scale, 8, 0, 15, codes);
  return scale;
}

}  // namespace kvik::cpu
