#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/weights.h"
#include "tensor/small_float.h"

// Where single values lie in block-quantised weights: for packing and unpacking, which are not in the files of an instruction set.
namespace kvik::cpu {

struct BlockPlace {
  int64_t scale_offset;  // of column 0 of the panel
  int64_t bytes_offset;  // of the block's first line
};

inline BlockPlace block_place(const WeightLayout& l, int64_t panel, int64_t block) {
  const int64_t unit_blocks = l.scales == ScaleFormat::kF16 ? 2 : 1;
  const int64_t unit = panel * l.panel_bytes + block / unit_blocks * (64 + unit_blocks * l.block_bytes);
  return {unit + block % unit_blocks * 32, unit + 64 + block % unit_blocks * l.block_bytes};
}

inline float block_scale(const PackedWeights& w, int64_t column, int64_t block) {
  const std::byte* scales = w.data + block_place(w.layout, column / 16, block).scale_offset;
  if (w.layout.scales == ScaleFormat::kF32) return reinterpret_cast<const float*>(scales)[column % 16];
  return reinterpret_cast<const Half*>(scales)[column % 16];
}

// In the domain of block_code(): 0 and 8 stand for no zero point.
inline int block_zero_point(const PackedWeights& w, int64_t column, int64_t block) {
  const bool four_bits = w.layout.format == WeightFormat::kBlocks4;
  if (!w.layout.has_zero_points) return four_bits ? 8 : 0;
  const auto* points = reinterpret_cast<const uint8_t*>(w.data + w.layout.zero_points_offset);
  const int point = points[(column / 16 * w.layout.n_blocks + block) * 16 + column % 16];
  return four_bits ? point : point - 128;
}

struct CodePlace {
  int64_t byte;  // in the block
  bool high;     // nibble, 4 bits only
};

inline CodePlace code_place(const WeightLayout& l, int64_t lane, int64_t k_in_block) {
  const int64_t step = std::min(l.block, 32), s = k_in_block / step, i = k_in_block % step;
  if (l.format == WeightFormat::kBlocks8) return {s * step * 16 + i / 4 * 64 + lane * 4 + i % 4, false};
  const int64_t half = step / 2, j = i % half;
  return {s * step * 8 + j / 4 * 64 + lane * 4 + j % 4, i >= half};
}

// The stored integer: int8, or 0..15.
inline int block_code(const PackedWeights& w, int64_t column, int64_t k) {
  const CodePlace place = code_place(w.layout, column % 16, k % w.layout.block);
  const std::byte byte = w.data[block_place(w.layout, column / 16, k / w.layout.block).bytes_offset + place.byte];
  if (w.layout.format == WeightFormat::kBlocks8) return static_cast<int8_t>(byte);
  return std::to_integer<int>(place.high ? byte >> 4 : byte & std::byte{15});
}

}  // namespace kvik::cpu
