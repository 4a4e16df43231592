#pragma once

#include "kernels/cpu/body/declarations.h"
#include "kernels/cpu/body/six_bits.h"
#include "kernels/cpu/body/tiles.h"

// f32 rows by block-quantized weights, as if the weights had been converted back: for graphs whose activations are not quantized.
// Within a step of 32 k (16 where blocks are 16) two chains of fma run over its first and its second half; then
//   f = fma(first + second, weight_scale, f)
namespace kvik::cpu::KVIK_ISA {

// Byte j of each lane, as a float less its zero point.
template <int j>
KVIK_INLINE F signed_byte(I x, F zero_points) {
  return sub(to_float(shift_right_signed<24>(shift_left<24 - 8 * j>(x))), zero_points);
}
template <int j, int kNibble>
KVIK_INLINE F nibble(I x, F zero_points) {
  return sub(to_float(iand(shift_right<8 * j + 4 * kNibble>(x), ibcast(15))), zero_points);
}

template <int kStep_>
struct Eight32 {
  static constexpr int kStep = kStep_, kStepBytes = kStep * kLanes;
  KVIK_INLINE F default_zero_points() { return zero(); }
  KVIK_INLINE F stored_zero_points(const uint8_t* p) { return to_float(isub(iload_u8(p), ibcast(128))); }
  // Weight of k = 4 * group + j in the first or the second half of a step.
  template <int j>
  KVIK_INLINE F first(const uint8_t* lines, int64_t group, F zero_points) {
    return signed_byte<j>(iload(lines + group * 64), zero_points);
  }
  template <int j>
  KVIK_INLINE F second(const uint8_t* lines, int64_t group, F zero_points) {
    return signed_byte<j>(iload(lines + (kStep / 8 + group) * 64), zero_points);
  }
};

template <int kStep_>
struct Four32 {
  static constexpr int kStep = kStep_, kStepBytes = kStep * kLanes / 2;
  KVIK_INLINE F default_zero_points() { return bcast(8.0f); }
  KVIK_INLINE F stored_zero_points(const uint8_t* p) { return to_float(iload_u8(p)); }
  template <int j>
  KVIK_INLINE F first(const uint8_t* lines, int64_t group, F zero_points) {
    return nibble<j, 0>(iload(lines + group * 64), zero_points);
  }
  template <int j>
  KVIK_INLINE F second(const uint8_t* lines, int64_t group, F zero_points) {
    return nibble<j, 1>(iload(lines + group * 64), zero_points);
  }
};

struct Six32 {
  static constexpr int kStep = 32, kStepBytes = kStep * kLanes * 6 / 8;
  KVIK_INLINE F default_zero_points() { return bcast(32.0f); }
  KVIK_INLINE F stored_zero_points(const uint8_t* p) { return to_float(iload_u8(p)); }
  template <int j>
  KVIK_INLINE F first(const uint8_t* lines, int64_t group, F zero_points) {
    return signed_byte<j>(six_bits(lines, static_cast<int>(group)).low, zero_points);
  }
  template <int j>
  KVIK_INLINE F second(const uint8_t* lines, int64_t group, F zero_points) {
    return signed_byte<j>(six_bits(lines, static_cast<int>(group)).high, zero_points);
  }
};

template <class Bytes, int j, int R>
KVIK_INLINE void step_k(F (&a)[R], F (&b)[R], const uint8_t* lines, int group, F zero_points, const float* const (&x)[R]) {
  const F first = Bytes::template first<j>(lines, group, zero_points), second = Bytes::template second<j>(lines, group, zero_points);
  for (int r = 0; r < R; ++r) a[r] = fma(bcast(x[r][4 * group + j]), first, a[r]);
  for (int r = 0; r < R; ++r) b[r] = fma(bcast(x[r][Bytes::kStep / 2 + 4 * group + j]), second, b[r]);
}

// x: the step's own 32 or 16 values of each row.
template <class Bytes, int R>
KVIK_INLINE void step_f32(F (&f)[R], F scale, F zero_points, const uint8_t* lines, const float* const (&x)[R]) {
  F a[R], b[R];
  for (int r = 0; r < R; ++r) a[r] = b[r] = zero();
  KVIK_UNROLL
  for (int group = 0; group < Bytes::kStep / 8; ++group) {
    step_k<Bytes, 0>(a, b, lines, group, zero_points, x);
    step_k<Bytes, 1>(a, b, lines, group, zero_points, x);
    step_k<Bytes, 2>(a, b, lines, group, zero_points, x);
    step_k<Bytes, 3>(a, b, lines, group, zero_points, x);
  }
  for (int r = 0; r < R; ++r) f[r] = fma(add(a[r], b[r]), scale, f[r]);
}

KVIK_INLINE F scales_of(const WeightLayout& layout, const uint8_t* unit, int64_t block_in_unit) {
  if (layout.scales == ScaleFormat::kF32) return load(reinterpret_cast<const float*>(unit));
  return load(reinterpret_cast<const Half*>(unit) + block_in_unit * kLanes);
}

template <class Bytes, int R>
KVIK_INLINE void block_tile_f32(const PackedWeights& m, const FloatRows& x, const MatmulOut& out, int64_t row, int64_t panel) {
  const WeightLayout& layout = m.layout;
  const uint8_t* data = reinterpret_cast<const uint8_t*>(m.data);
  const uint8_t *unit = data + panel * layout.panel_bytes, *lines = unit + 64;
  const uint8_t* zero_points_at = data + layout.zero_points_offset + panel * layout.n_blocks * kLanes;
  const int64_t unit_blocks = layout.scales == ScaleFormat::kF16 ? 2 : 1, steps_per_block = layout.block / Bytes::kStep;
  const float* xr[R];
  for (int r = 0; r < R; ++r) xr[r] = x.data + (row + r) * x.stride;
  alignas(64) float tail[R][Bytes::kStep];
  F f[R];
  for (int r = 0; r < R; ++r) f[r] = zero();
  int64_t left = layout.k;
  for (int64_t b = 0; b < layout.n_blocks && left > 0; ++b) {
    const int64_t in_unit = b % unit_blocks;
    if (in_unit == 0 && b > 0) {
      unit = lines;
      lines += 64;
    }
    const F scale = scales_of(layout, unit, in_unit);
    const F zero_points = layout.has_zero_points ? Bytes::stored_zero_points(zero_points_at + b * kLanes) : Bytes::default_zero_points();
    for (int64_t s = 0; s < steps_per_block && left > 0; ++s) {
      if (left < Bytes::kStep) {  // the last values, padded with zeros that change no sum
        for (int r = 0; r < R; ++r) {
          memset(tail[r], 0, sizeof tail[r]);
          memcpy(tail[r], xr[r], static_cast<size_t>(left) * sizeof(float));
          xr[r] = tail[r];
        }
      }
      step_f32<Bytes>(f, scale, zero_points, lines, xr);
      for (int r = 0; r < R; ++r) xr[r] += Bytes::kStep;
      lines += Bytes::kStepBytes;
      left -= Bytes::kStep;
    }
  }
  for (int r = 0; r < R; ++r) store_sums(out, row + r, panel * kLanes, layout.n, f[r]);
}

template <class Bytes>
void matmul_blocks_f32(const PackedWeights& m, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  constexpr int kMostRows = kFloatRows < 6 ? kFloatRows : 6;  // each has three sums
  for (int64_t p = range.begin; p < range.end; ++p)
    row_tiles<kMostRows>(x.n_rows, [&](auto rows, int64_t row) { block_tile_f32<Bytes, rows.value>(m, x, out, row, p); });
}

void matmul_eight_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  if (weights.layout.block == 16) return matmul_blocks_f32<Eight32<16>>(weights, x, out, range);
  matmul_blocks_f32<Eight32<32>>(weights, x, out, range);
}

void matmul_six_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  matmul_blocks_f32<Six32>(weights, x, out, range);
}

void matmul_four_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  if (weights.layout.block == 16) return matmul_blocks_f32<Four32<16>>(weights, x, out, range);
  matmul_blocks_f32<Four32<32>>(weights, x, out, range);
}

}  // namespace kvik::cpu::KVIK_ISA
