#pragma once

#include <cstdint>

// The boundaries at which every device cuts its sums. They depend on nothing but the shape of the model: not on the number of rows, on the
// length of a sequence, on the number of multiprocessors or on what else runs. So one row, 64 rows and a prompt have equal bits. A change
// here changes bits, and with them `Facts::arithmetic`.
//
//   product over k    steps of 16 products are one tensor-core sum each; a slice is a chain of steps in one accumulator, from zero; slices
//   are
//                     added in ascending order into their group, groups into the total, in f32. Then come exponents, bias and residual.
//   quantized blocks  codes are exact integers; a fresh accumulator for each 32 columns, then slice = fma(scale, sum, slice)
//   f32               value = high + low / 2048, both f16; three chains; slice = high.high + (high.low + low.high) / 2048
//   attention         a span of positions has its own largest score (exact), weights exp(score - largest) in f16, and sums of weights and
//                     of weighted values as chains of steps; spans are merged in ascending order into their group, groups into the whole
//   reductions        256 strands, element i to strand i % 256, ascending; then a tree (128, 64, … 1)
namespace kvik::device {

inline constexpr int kStepColumns = 16;
inline constexpr int kBlockColumns = 32;  // a scale and a fresh accumulator each
inline constexpr int kSliceColumns = 256;
inline constexpr int kGroupColumns = 2048;
inline constexpr int kSpanPositions = 128;
inline constexpr int kSpanGroupPositions = 1024;
inline constexpr int kStrands = 256;
inline constexpr int kPagePositions = 32;

inline constexpr float kPlaneStep = 2048.0f;     // 2^11: how much smaller the low plane of an f32 is
inline constexpr float kWeightScale = 16384.0f;  // of attention weights in f16: small ones keep their bits; it cancels in the quotient

}  // namespace kvik::device
