#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/cpu/sources.h"
#include "kernels/cpu/weights.h"
#include "kernels/device/steps.h"

// Matrices as device kernels read them: one packing for one row, batches and prompts. A tile is 16 columns of the matrix (outputs), a unit
// 16 columns x 32 k (x 64 in four bits) in the order of an mma fragment. Units of a tile follow one another along k, tiles along n.
//
//   lane (g, t) of 32 has columns g and g + 8, and of each step of 16 k: 2t, 2t + 1, 2t + 8, 2t + 9
//   kF16     1024 bytes: [2 steps][32 lanes][4 registers: (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8)], two f16 each
//   kF32     2048 bytes: the unit of high values, then that of low ones
//   kQ8      544 bytes: [32 lanes][2 steps][8 codes + 128, in the order of registers], then 16 scales f16
//   kQ4      576 bytes, 64 k: [32 lanes][4 steps][8 nibbles: the low halves of the four registers, then the high ones], 2 x 16 scales
//   kQ8Zero  640 bytes: as kQ8, but 16 x {scale f32, zero point f16 as 1024 + z, 2 bytes unused} instead of the scales
//   kQ4Zero  768 bytes: as kQ4 with 2 x 16 of them; scales are in the order of columns 0, 8, 1, 9, … 7, 15
//
// k is padded to whole units (kF16 … to 32, four bits to 64), n to whole tiles, with zeros.
namespace kvik::device {

inline constexpr int kTileColumns = 16;

// Where (column, k) of a step of 16 is in a fragment: the lane, which of its four registers, and which half of that.
struct FragmentPlace {
  int64_t lane, reg, half;
};
constexpr FragmentPlace fragment_place(int64_t column, int64_t k) { return {column % 8 * 4 + k % 8 / 2, column / 8 + k / 8 * 2, k % 2}; }

struct UnitLayout {
  WeightFormat format = WeightFormat::kF16;
  int64_t k = 0, n = 0;
  int32_t unit_columns = 32;  // of k
  int32_t unit_bytes = 0;
  int64_t n_tiles = 0;
  int64_t units_per_tile = 0;
  int64_t size_bytes = 0;
};
UnitLayout unit_layout(WeightFormat format, int64_t k, int64_t n);

// The format that keeps what the CPU's packing keeps: bf16 becomes f16 with an exponent for each column, blocks of 16 become f32. None for
// integer products.
std::optional<WeightFormat> unit_format(const cpu::WeightLayout& layout);

struct TileRange {
  int64_t begin, end;
};

// Writes the tiles of a range to `units` (whose first byte is that of tile `range.begin`) and the powers of two that results are multiplied
// by to scales[16 * tile …], n of them in all. Ranges may be packed by different threads. Codes of PackedWeights stay as they are; a
// FloatSource becomes kF16 or kF32.
void pack_units(const cpu::PackedWeights& from, const UnitLayout& layout, TileRange range, std::byte* units, std::span<float> scales);
void pack_units(const cpu::FloatSource& from, const UnitLayout& layout, TileRange range, std::byte* units, std::span<float> scales);

}  // namespace kvik::device
