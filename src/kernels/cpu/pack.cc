#include "kernels/cpu/pack.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/cpu/block_codec.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/quantize_block.h"

namespace kvik::cpu {
namespace {

constexpr int64_t kMostBlock = 512;
constexpr int64_t kPanelsPerItem = 8;

// Of 4 or 8 bits, which models store.
void set_code(const WeightLayout& layout, std::byte* block, int64_t lane, int64_t k_in_block, int code) {
  const CodePlace place = code_place(layout, lane, k_in_block);
  if (layout.format == WeightFormat::kBlocks8) {
    block[place.byte] = static_cast<std::byte>(static_cast<int8_t>(code));
    return;
  }
  block[place.byte] |= static_cast<std::byte>(code << place.shift);
}

// The two lines of upper bits that follow four lines of nibbles.
void set_upper_bits(std::byte* to, const int8_t* codes) {
  for (int64_t i = 0; i < 2; ++i, to += 64, codes += 8) {
    for (int64_t j = 0; j < 4; ++j)
      to[j] = static_cast<std::byte>(codes[j] >> 4 | codes[16 + j] >> 4 << 2 | codes[4 + j] >> 4 << 4 | codes[20 + j] >> 4 << 6);
  }
}

// The codes of one lane of a whole block: as set_code() for each k, four neighbors at a time. The block's bytes are zero before.
void set_codes(const WeightLayout& layout, std::byte* block, int64_t lane, const int8_t* codes) {
  const int64_t step = std::min(layout.block, 32), step_bytes = layout.block_bytes / (layout.block / step);
  const bool eight = layout.format == WeightFormat::kBlocks8;
  const int64_t groups = eight ? step / 4 : step / 8, half = step / 2;
  for (int64_t s = 0; s < layout.block / step; ++s, codes += step) {
    std::byte* to = block + s * step_bytes + lane * 4;
    for (int64_t g = 0; g < groups; ++g, to += 64) {
      if (eight) {
        std::memcpy(to, codes + g * 4, 4);
        continue;
      }
      for (int64_t i = 0; i < 4; ++i) to[i] = static_cast<std::byte>((codes[g * 4 + i] & 15) | (codes[half + g * 4 + i] & 15) << 4);
    }
    if (layout.format == WeightFormat::kBlocks6) set_upper_bits(to, codes);
  }
}

void set_scale(const WeightLayout& layout, std::byte* scales, int64_t lane, float scale) {
  if (layout.scales == ScaleFormat::kF32) {
    reinterpret_cast<float*>(scales)[lane] = scale;
  } else {
    reinterpret_cast<Half*>(scales)[lane] = Half(scale);
  }
}

uint8_t* zero_points_of(const WeightLayout& layout, std::byte* data, int64_t panel, int64_t block) {
  return reinterpret_cast<uint8_t*>(data + layout.zero_points_offset) + (panel * layout.n_blocks + block) * 16;
}

// One k of a panel of floats: up to 32 columns that lie side by side in the panel.
template <class T>
void put_row(const float* values, int64_t count, T* row) {
  for (int64_t c = 0; c < count; ++c) row[c] = T(values[c]);
}

void put_float_row(const WeightLayout& layout, const float* values, int64_t count, std::byte* panel, int64_t k) {
  switch (layout.format) {
    case WeightFormat::kF16: return fastest().f32_to_f16(values, reinterpret_cast<Half*>(panel) + k * 32, count);
    case WeightFormat::kBF16: return put_row(values, count, reinterpret_cast<BFloat16*>(panel) + k * 32);
    default: return put_row(values, count, reinterpret_cast<float*>(panel) + k * 32);
  }
}

// Columns [first, first + count) of k in [begin, end), into tile[k - begin][column].
void read_tile(const FloatSource& source, int64_t first, int64_t count, int64_t begin, int64_t end, float* tile, int64_t stride) {
  if (!source.n_major) {  // a row of the source is a row of the tile: read it as a column of the transposed source
    FloatSource rows = source;
    rows.n_major = true;
    std::swap(rows.k, rows.n);
    for (int64_t k = begin; k < end; ++k) read_column(rows, k, first, count, tile + (k - begin) * stride);
    return;
  }
  std::array<float, kMostBlock> column;
  for (int64_t c = 0; c < count; ++c) {
    read_column(source, first + c, begin, end - begin, column.data());
    for (int64_t k = 0; k < end - begin; ++k) tile[k * stride + c] = column[static_cast<size_t>(k)];
  }
}

void pack_float_panel(const FloatSource& source, const WeightLayout& layout, std::byte* data, int64_t panel) {
  constexpr int64_t kRows = 64;
  std::array<float, kRows * 32> tile;
  std::byte* to = data + panel * layout.panel_bytes;
  const int64_t first = panel * 32, count = std::min<int64_t>(32, layout.n - first);
  for (int64_t begin = 0; begin < layout.k; begin += kRows) {
    const int64_t end = std::min(begin + kRows, layout.k);
    read_tile(source, first, count, begin, end, tile.data(), 32);
    for (int64_t k = begin; k < end; ++k) put_float_row(layout, tile.data() + (k - begin) * 32, count, to, k);
  }
}

void pack_quantized_panel(const FloatSource& source, const WeightLayout& layout, std::byte* data, int64_t panel) {
  std::vector<float> tile(static_cast<size_t>(kMostBlock) * 16), column(static_cast<size_t>(kMostBlock));
  std::vector<int8_t> codes(static_cast<size_t>(kMostBlock));
  const int bits = block_bits(layout.format);
  const int64_t first = panel * 16, count = std::min<int64_t>(16, layout.n - first);
  for (int64_t b = 0; b * layout.block < layout.k; ++b) {
    const int64_t begin = b * layout.block, size = std::min<int64_t>(layout.block, layout.k - begin);
    read_tile(source, first, count, begin, begin + size, tile.data(), 16);
    const BlockPlace place = block_place(layout, panel, b);
    for (int64_t lane = 0; lane < count; ++lane) {
      for (int64_t k = 0; k < size; ++k) column[static_cast<size_t>(k)] = tile[static_cast<size_t>(k * 16 + lane)];
      const float scale = quantize_block({column.data(), static_cast<size_t>(size)}, bits, {codes.data(), static_cast<size_t>(size)});
      set_scale(layout, data + place.scale_offset, lane, scale);
      std::fill(codes.begin() + size, codes.begin() + layout.block, int8_t{0});
      set_codes(layout, data + place.bytes_offset, lane, codes.data());
      if (layout.has_zero_points) zero_points_of(layout, data, panel, b)[lane] = bits == 8 ? 128 : 8;
    }
  }
}

// From the source's codes to those of the layout: unsigned nibbles, signed bytes with zero points that are unsigned.
struct CodeShift {
  int code, zero_point;
};
CodeShift shift_of(DType dtype) {
  switch (dtype) {
    case DType::kI4: return {8, 8};
    case DType::kU4: return {0, 0};
    case DType::kI8: return {0, 128};
    default: return {-128, 0};
  }
}

void pack_source_panel(const QuantSource& source, const WeightLayout& layout, std::byte* data, int64_t panel) {
  const CodeShift shift = shift_of(source.codes.dtype);
  const int64_t first = panel * 16, count = std::min<int64_t>(16, layout.n - first);
  for (int64_t b = 0; b * layout.block < layout.k; ++b) {
    const int64_t begin = b * layout.block, end = std::min(begin + layout.block, layout.k), source_block = begin / source.block;
    const BlockPlace place = block_place(layout, panel, b);
    for (int64_t lane = 0; lane < count; ++lane) {
      set_scale(layout, data + place.scale_offset, lane, scale_at(source.scales, source_block, first + lane));
      for (int64_t k = begin; k < end; ++k)
        set_code(layout, data + place.bytes_offset, lane, k - begin, code_at(source.codes, k, first + lane) + shift.code);
      if (!layout.has_zero_points) continue;
      const int zero_point = zero_point_at(source, source_block, first + lane) + shift.zero_point;
      zero_points_of(layout, data, panel, b)[lane] = static_cast<uint8_t>(zero_point);
    }
  }
}

void pack_channel_panel(const QuantSource& source, const WeightLayout& layout, std::byte* data, int64_t panel) {
  std::byte* to = data + panel * layout.panel_bytes;
  const int shift = shift_of(source.codes.dtype).code;
  const int64_t first = panel * 16, count = std::min<int64_t>(16, layout.n - first);
  for (int64_t lane = 0; lane < count; ++lane) {
    const int64_t n = first + lane;
    int32_t sum = 0;
    for (int64_t k = 0; k < layout.k; ++k) {
      const int code = code_at(source.codes, k, n) + shift;
      to[192 + k / 4 * 64 + lane * 4 + k % 4] = static_cast<std::byte>(static_cast<int8_t>(code));
      sum += code;
    }
    reinterpret_cast<float*>(to)[lane] = scale_at(source.scales, 0, n);
    reinterpret_cast<int32_t*>(to + 64)[lane] = zero_point_at(source, 0, n) + shift;
    reinterpret_cast<int32_t*>(to + 128)[lane] = sum;
  }
}

template <class Source, class PackRange>
Weights pack_all(ThreadPool& pool, const Source& source, const WeightLayout& layout, PackRange pack_range) {
  Weights weights{.memory = AlignedBuffer(static_cast<size_t>(layout.size_bytes))};
  weights.view = {layout, weights.memory.data()};
  pool.for_ranges(layout.n_panels, kPanelsPerItem, [&](int64_t begin, int64_t end) {
    pack_range(source, layout, weights.memory.data(), PanelRange{begin, end});
  });
  return weights;
}

}  // namespace

void pack_panels(const FloatSource& source, const WeightLayout& layout, std::byte* data, PanelRange range) {
  for (int64_t p = range.begin; p < range.end; ++p) {
    if (block_bits(layout.format) > 0) {
      pack_quantized_panel(source, layout, data, p);
    } else {
      pack_float_panel(source, layout, data, p);
    }
  }
}

void pack_panels(const QuantSource& source, const WeightLayout& layout, std::byte* data, PanelRange range) {
  for (int64_t p = range.begin; p < range.end; ++p) pack_source_panel(source, layout, data, p);
}

void pack_channels(const QuantSource& source, const WeightLayout& layout, std::byte* data, PanelRange range) {
  for (int64_t p = range.begin; p < range.end; ++p) pack_channel_panel(source, layout, data, p);
}

Weights pack(ThreadPool& pool, const FloatSource& source, const WeightLayout& layout) {
  return pack_all(pool, source, layout, [](const auto&... args) { pack_panels(args...); });
}

Weights pack(ThreadPool& pool, const QuantSource& source) {
  return pack_all(pool, source, layout_for(source), [](const auto&... args) { pack_panels(args...); });
}

Weights pack_channels(ThreadPool& pool, const QuantSource& source) {
  return pack_all(pool, source, channel_layout(source.k, source.n), [](const auto&... args) { pack_channels(args...); });
}

}  // namespace kvik::cpu
