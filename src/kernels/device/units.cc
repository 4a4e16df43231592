#include "kernels/device/units.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/block_codec.h"
#include "kernels/device/code_map.h"
#include "kernels/device/math.h"
#include "kernels/device/order.h"
#include "kvik/error.h"
#include "tensor/small_float.h"

namespace kvik::device {
namespace {

constexpr int64_t kCodeBytes = 512;  // of a unit, without scales; of a plane of f16, in one step

bool is_float(WeightFormat format) { return format == WeightFormat::kF16 || format == WeightFormat::kF32; }
bool has_four_bits(WeightFormat format) { return format == WeightFormat::kQ4 || format == WeightFormat::kQ4Zero; }
bool has_zero_points(WeightFormat format) { return format == WeightFormat::kQ8Zero || format == WeightFormat::kQ4Zero; }

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// One column of floats into the units of its tile. Returns what undoes its exponent.
float put_floats(const UnitLayout& layout, std::span<const float> column, int64_t c, bool exact, std::byte* tile) {
  uint32_t largest = 0;
  for (const float x : column) largest = std::max(largest, bits_of(x) & 0x7fffffffu);
  const int32_t exponent = exact ? 0 : half_exponent(largest);
  const float factor = power_of_two(exponent);
  for (int64_t k = 0; k < layout.k; ++k) {
    const FragmentPlace place = fragment_place(c, k % kStepColumns);
    const int64_t offset =
        k / 32 * layout.unit_bytes + k % 32 / kStepColumns * kCodeBytes + place.lane * 16 + place.reg * 4 + place.half * 2;
    const float scaled = column[static_cast<size_t>(k)] * factor;
    const Half high = scaled;
    put(tile + offset, high.bits);
    if (layout.format == WeightFormat::kF32) put(tile + offset + 2 * kCodeBytes, Half((scaled - float{high}) * kPlaneStep).bits);
  }
  return power_of_two(-exponent);
}

// f16 stays as it is. Fragments have two k in a word: as the column has them, or one from each of two rows.
void put_halves(const cpu::FloatSource& from, const UnitLayout& layout, int64_t first, std::byte* tile) {
  const auto* data = static_cast<const uint16_t*>(from.data);
  const int64_t k_stride = from.n_major ? 1 : from.n, n_stride = from.n_major ? from.k : 1;
  const int64_t n_columns = std::min<int64_t>(kTileColumns, layout.n - first);
  for (int64_t k = 0; k < layout.k; k += 2) {
    const FragmentPlace place = fragment_place(0, k % kStepColumns);
    std::byte* at = tile + k / 32 * layout.unit_bytes + k % 32 / kStepColumns * kCodeBytes + place.lane * 16 + place.reg * 4;
    const uint16_t* low = data + k * k_stride + first * n_stride;
    const uint16_t* high = low + k_stride;
    const bool has_both = k + 1 < layout.k;
    for (int64_t c = 0; c < n_columns; ++c) {
      const uint32_t word = low[c * n_stride] | (has_both ? static_cast<uint32_t>(high[c * n_stride]) << 16 : 0u);
      put(at + c % 8 * 64 + c / 8 * 4, word);
    }
  }
}

void put_code(const UnitLayout& layout, int64_t c, int64_t k, uint32_t code, std::byte* tile) {
  const FragmentPlace place = fragment_place(c, k % kStepColumns);
  std::byte* lane = tile + k / layout.unit_columns * layout.unit_bytes + place.lane * 16;
  const int64_t step = k % layout.unit_columns / kStepColumns;
  if (!has_four_bits(layout.format)) {
    lane[step * 8 + place.reg * 2 + place.half] = static_cast<std::byte>(code);
    return;
  }
  const int64_t nibble = place.reg + 4 * place.half;
  std::byte& pair = lane[step * 4 + nibble / 2];
  pair = nibble % 2 == 0 ? (pair & std::byte{0xf0}) | static_cast<std::byte>(code)
                         : (pair & std::byte{0x0f}) | static_cast<std::byte>(code << 4);
}

// Of the 32 k from `k` on.
void put_scale(const UnitLayout& layout, int64_t c, int64_t k, float scale, int zero_point, std::byte* tile) {
  std::byte* scales = tile + k / layout.unit_columns * layout.unit_bytes + kCodeBytes;
  const int64_t block = k % layout.unit_columns / kBlockColumns, i = c % 8 * 2 + c / 8;
  if (!has_zero_points(layout.format)) return put(scales + (block * kTileColumns + i) * 2, Half(scale).bits);
  std::byte* at = scales + (block * kTileColumns + i) * 8;
  put(at, scale);
  put(at + 4, Half(1024.0f + static_cast<float>(zero_point)).bits);
}

// Codes are unsigned in units: eight bits are stored with 128 added, and so are their zero points. Six bits become eight. Codes before
// `first` are there already.
void put_codes(const cpu::PackedWeights& from, const UnitLayout& layout, int64_t first, int64_t n, int64_t c, std::byte* tile) {
  const int shift = has_four_bits(layout.format) ? 0 : from.layout.format == cpu::WeightFormat::kBlocks6 ? 96 : 128;
  for (int64_t k = first; k < layout.k; ++k) put_code(layout, c, k, static_cast<uint32_t>(cpu::block_code(from, n, k) + shift), tile);
  for (int64_t k = 0; k < layout.k; k += kBlockColumns) {
    const int64_t block = k / from.layout.block;
    const int zero_point = cpu::block_zero_point(from, n, block);
    put_scale(layout, c, k, cpu::block_scale(from, n, block), zero_point + shift, tile);
  }
}

// All columns of a tile, as far as k has whole blocks.
void copy_codes(const cpu::PackedWeights& from, const UnitLayout& layout, const CodeMap& map, int64_t tile_index, std::byte* tile) {
  for (int64_t k = 0; k + kBlockColumns <= layout.k; k += kBlockColumns) {
    const int64_t in_unit = k % layout.unit_columns / kBlockColumns * 8;  // the second block of four bits: the second half of each lane
    map.copy(codes_at(from, tile_index, k), tile + k / layout.unit_columns * layout.unit_bytes + in_unit);
  }
}

// Codes of 0 behind k and n would be -8 or -128 times a scale; rows are 0 there, but products with infinities must not be.
void clear_tile(const UnitLayout& layout, std::byte* tile) {
  std::memset(tile, 0, static_cast<size_t>(layout.units_per_tile * layout.unit_bytes));
  if (is_float(layout.format)) return;
  const bool four_bits = has_four_bits(layout.format);
  for (int64_t u = 0; u < layout.units_per_tile; ++u) {
    std::byte* unit = tile + u * layout.unit_bytes;
    std::memset(unit, four_bits ? 0x88 : 0x80, static_cast<size_t>(kCodeBytes));
    if (!has_zero_points(layout.format)) continue;
    for (int64_t i = 0; i < (layout.unit_bytes - kCodeBytes) / 8; ++i)
      put(unit + kCodeBytes + i * 8 + 4, Half(four_bits ? 1032.0f : 1152.0f).bits);
  }
}

template <class Put>
void for_columns(const UnitLayout& layout, TileRange range, std::byte* units, Put put_column) {
  for (int64_t tile = range.begin; tile < range.end; ++tile) {
    std::byte* at = units + (tile - range.begin) * layout.units_per_tile * layout.unit_bytes;
    clear_tile(layout, at);
    for (int64_t c = 0; c < kTileColumns && tile * kTileColumns + c < layout.n; ++c) put_column(tile * kTileColumns + c, c, at);
  }
}

}  // namespace

UnitLayout unit_layout(WeightFormat format, int64_t k, int64_t n) {
  if (k < 1 || n < 1 || k > INT32_MAX / 2 || n > INT32_MAX / 2)
    throw Error(Code::kBadArgument, "a matrix has no size that a device can take");
  UnitLayout layout{.format = format, .k = k, .n = n};
  layout.unit_columns = has_four_bits(format) ? 64 : 32;
  switch (format) {
    case WeightFormat::kF16: layout.unit_bytes = 1024; break;
    case WeightFormat::kF32: layout.unit_bytes = 2048; break;
    case WeightFormat::kQ8: layout.unit_bytes = 544; break;
    case WeightFormat::kQ4: layout.unit_bytes = 576; break;
    case WeightFormat::kQ8Zero: layout.unit_bytes = 640; break;
    case WeightFormat::kQ4Zero: layout.unit_bytes = 768; break;
  }
  layout.n_tiles = (n + kTileColumns - 1) / kTileColumns;
  layout.units_per_tile = (k + layout.unit_columns - 1) / layout.unit_columns;
  layout.size_bytes = layout.n_tiles * layout.units_per_tile * layout.unit_bytes;
  return layout;
}

std::optional<WeightFormat> unit_format(const cpu::WeightLayout& layout) {
  switch (layout.format) {
    case cpu::WeightFormat::kF32: return WeightFormat::kF32;
    case cpu::WeightFormat::kF16:
    case cpu::WeightFormat::kBF16: return WeightFormat::kF16;
    case cpu::WeightFormat::kChannels8: return std::nullopt;
    default: break;
  }
  if (layout.block < kBlockColumns) return WeightFormat::kF32;
  const bool plain = !layout.has_zero_points && layout.scales == cpu::ScaleFormat::kF16;
  if (layout.format == cpu::WeightFormat::kBlocks4) return plain ? WeightFormat::kQ4 : WeightFormat::kQ4Zero;
  return plain ? WeightFormat::kQ8 : WeightFormat::kQ8Zero;
}

void pack_units(const cpu::PackedWeights& from, const UnitLayout& layout, TileRange range, std::byte* units, std::span<float> scales) {
  if (!is_float(layout.format)) {
    const bool maps = from.layout.format == cpu::WeightFormat::kBlocks8 || from.layout.format == cpu::WeightFormat::kBlocks4;
    const CodeMap map(from.layout);
    return for_columns(layout, range, units, [&](int64_t n, int64_t c, std::byte* tile) {
      const bool whole = maps && n - c + kTileColumns <= layout.n;
      const int64_t n_mapped = whole ? layout.k / kBlockColumns * kBlockColumns : 0;
      if (whole && c == 0) copy_codes(from, layout, map, n / kTileColumns, tile);
      put_codes(from, layout, n_mapped, n, c, tile);
      scales[static_cast<size_t>(n)] = 1.0f;
    });
  }
  std::vector<float> column(static_cast<size_t>(layout.k));
  const bool exact = from.layout.format == cpu::WeightFormat::kF16;
  for_columns(layout, range, units, [&](int64_t n, int64_t c, std::byte* tile) {
    cpu::unpack_column(from, n, column.data());
    scales[static_cast<size_t>(n)] = put_floats(layout, column, c, exact, tile);
  });
}

void pack_units(const cpu::FloatSource& from, const UnitLayout& layout, TileRange range, std::byte* units, std::span<float> scales) {
  const bool exact = from.dtype == DType::kF16;
  if (exact && layout.format == WeightFormat::kF16) {
    const int64_t tile_bytes = layout.units_per_tile * layout.unit_bytes;
    for (int64_t tile = range.begin; tile < range.end; ++tile) {
      std::byte* at = units + (tile - range.begin) * tile_bytes;
      std::memset(at, 0, static_cast<size_t>(tile_bytes));
      put_halves(from, layout, tile * kTileColumns, at);
    }
    std::fill(scales.begin() + range.begin * kTileColumns, scales.begin() + std::min(layout.n, range.end * kTileColumns), 1.0f);
    return;
  }
  std::vector<float> column(static_cast<size_t>(layout.k));
  for_columns(layout, range, units, [&](int64_t n, int64_t c, std::byte* tile) {
    cpu::read_column(from, n, 0, layout.k, column.data());
    scales[static_cast<size_t>(n)] = put_floats(layout, column, c, exact, tile);
  });
}

}  // namespace kvik::device
