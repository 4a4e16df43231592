#pragma once

#include <cstdint>
#include <span>

namespace kvik::cpu {

// Turns a block of weights into integers and returns their scale, a number that f16 holds exactly: w is about (code - bias) * scale.
//   8 bits  codes -127..127, no bias: the largest magnitude is 127.
//   6 bits  codes 0..63, bias 32, and
//   4 bits  codes 0..15, bias 8: the weight of largest magnitude is at first code 0; then the scale is refitted by least squares.
// Throws Error(kBadModel) for an infinity or NaN, Error(kUnsupported) when the scale does not fit f16.
float quantize_block(std::span<const float> weights, int bits, std::span<int8_t> codes);
// What is subtracted from a code.
constexpr int code_bias(int bits) { return bits == 8 ? 0 : 1 << (bits - 1); }

}  // namespace kvik::cpu
