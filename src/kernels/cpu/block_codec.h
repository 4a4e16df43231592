#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/weights.h"
#include "tensor/small_float.h"

// Where single values lie in block-quantized weights: for packing and unpacking, which are not in the files of an instruction set.
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

// In the domain of block_code(): 0, 32 and 8 stand for no zero point.
inline int block_zero_point(const PackedWeights& w, int64_t column, int64_t block) {
  const WeightFormat format = w.layout.format;
  if (!w.layout.has_zero_points) return format == WeightFormat::kBlocks4 ? 8 : format == WeightFormat::kBlocks6 ? 32 : 0;
  const auto* points = reinterpret_cast<const uint8_t*>(w.data + w.layout.zero_points_offset);
  const int point = points[(column / 16 * w.layout.n_blocks + block) * 16 + column % 16];
  return format == WeightFormat::kBlocks4 ? point : point - 128;
}

// Bits of a code in a byte of a block.
struct CodePlace {
  int64_t byte;
  int shift;
};

// All 8 bits, or the lower 4 of 4 and 6.
inline CodePlace code_place(const WeightLayout& l, int64_t lane, int64_t k_in_block) {
  const int64_t step = std::min(l.block, 32), s = k_in_block / step, i = k_in_block % step;
  const int64_t at = s * l.block_bytes / (l.block / step) + lane * 4 + i % 4;
  if (l.format == WeightFormat::kBlocks8) return {at + i / 4 * 64, 0};
  const int64_t half = step / 2;
  return {at + i % half / 4 * 64, i < half ? 0 : 4};
}

// The upper 2 of 6 bits.
inline CodePlace upper_place(const WeightLayout& l, int64_t lane, int64_t k_in_block) {
  const int64_t s = k_in_block / 32, i = k_in_block % 32, group = i % 16 / 4;
  return {s * l.block_bytes / (l.block / 32) + (4 + group / 2) * 64 + lane * 4 + i % 4, static_cast<int>(group % 2 * 4 + i / 16 * 2)};
}

// The stored integer: int8, 0..63 or 0..15.
inline int block_code(const PackedWeights& w, int64_t column, int64_t k) {
  const int64_t lane = column % 16, k_in_block = k % w.layout.block;
  const std::byte* block = w.data + block_place(w.layout, column / 16, k / w.layout.block).bytes_offset;
  const CodePlace place = code_place(w.layout, lane, k_in_block);
  if (w.layout.format == WeightFormat::kBlocks8) return static_cast<int8_t>(block[place.byte]);
  const int low = std::to_integer<int>(block[place.byte] >> place.shift) & 15;
  if (w.layout.format == WeightFormat::kBlocks4) return low;
  const CodePlace upper = upper_place(w.layout, lane, k_in_block);
  return low | (std::to_integer<int>(block[upper.byte] >> upper.shift) & 3) << 4;
}

}  // namespace kvik::cpu
