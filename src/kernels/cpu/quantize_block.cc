#include "kernels/cpu/quantize_block.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/vector_clones.h"
#include "kvik/error.h"
#include "tensor/small_float.h"

namespace kvik::cpu {
namespace {

constexpr float kCandidates[] = {-0.9f, -0.6f, -0.3f, 0.0f, 0.3f, 0.6f, 0.9f};  // steps by which the largest weight passes the last code

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
constexpr float kRoundingMagic = 12582912.0f;  // 1.5 * 2^23
float rounded(float x) { return x + kRoundingMagic - kRoundingMagic; }

float as_half(float scale) {
  const float rounded = Half(scale);
  if (std::isinf(rounded)) {
    throw Error(Code::kUnsupported, "a weight is too large to be quantized with a 16-bit scale; load the model with 32-bit weights");
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

// How well codes fit weights: the scale that fits best, sum(w c) / sum(c c) with c = code - bias, and by how much it lowers the squared
// error.
struct Fit {
  float scale = 0.0f, gain = 0.0f;
};
// Of the codes that `steps_per_weight` gives. Eight sums side by side in one order, whatever the instruction set.
class FitSums {
 public:
  FitSums(float steps_per_weight, float bias)
      : steps_per_weight_(steps_per_weight), lowest_(Eight{} - bias), highest_(Eight{} + (bias - 1.0f)) {}

  __attribute__((always_inline)) void add(const float* weights) {  // kLanes of them
    Eight w;
    std::memcpy(&w, weights, sizeof w);
    Eight c = w * steps_per_weight_;
    c = c < lowest_ ? lowest_ : c;
    c = c > highest_ ? highest_ : c;
    c = c + kRoundingMagic - kRoundingMagic;
    wc_ += w * c;
    cc_ += c * c;
  }
  __attribute__((always_inline)) Fit fit() const {
    float wc = 0.0f, cc = 0.0f;
    for (size_t lane = 0; lane < kLanes; ++lane) wc += wc_[lane], cc += cc_[lane];
    if (cc == 0.0f || !std::isfinite(wc)) return {};
    return {wc / cc, wc / cc * wc};
  }

  static constexpr size_t kLanes = 8;

 private:
  using Eight = float __attribute__((vector_size(32)));
  float steps_per_weight_;
  Eight lowest_, highest_;
  Eight wc_{}, cc_{};
};

// The best of all candidates.
KVIK_VECTOR_CLONES Fit best_fit(const float* weights, size_t n, float peak, float bias) {
  std::array<float, FitSums::kLanes> rest{};
  const size_t whole = n / FitSums::kLanes * FitSums::kLanes;
  for (size_t i = whole; i < n; ++i) rest[i - whole] = weights[i];
  Fit best;
  for (const float steps : kCandidates) {
    FitSums sums(-(bias + steps) / peak, bias);
    for (size_t i = 0; i < whole; i += FitSums::kLanes) sums.add(weights + i);
    if (whole < n) sums.add(rest.data());
    const Fit fit = sums.fit();
    if (fit.gain > best.gain) best = fit;
  }
  return best;
}

}  // namespace

float quantize_block(std::span<const float> weights, int bits, std::span<int8_t> codes) {
  const float peak = peak_of(weights);
  if (bits == 8) {
    const float scale = as_half(std::fabs(peak) / 127.0f);
    encode(weights, scale, 0, -127, 127, codes);
    return scale;
  }
  // The largest weight takes the code that reaches furthest, or nearly so: what it loses the others may gain.
  const int bias = code_bias(bits);
  float scale = as_half(peak / static_cast<float>(-bias));
  if (scale != 0.0f) {
    const Fit fit = best_fit(weights.data(), weights.size(), peak, static_cast<float>(bias));
    if (fit.gain > 0.0f) scale = as_half(fit.scale);
  }
  encode(weights, scale, bias, 0, 2 * bias - 1, codes);
  return scale;
}

}  // namespace kvik::cpu
