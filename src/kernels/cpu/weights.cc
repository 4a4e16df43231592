#include "kernels/cpu/weights.h"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <limits>

#include "kernels/cpu/block_codec.h"
#include "kernels/cpu/rows.h"
#include "kvik/error.h"
#include "tensor/small_float.h"

namespace kvik::cpu {
namespace {

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

constexpr int64_t kMostChannelK = 131072;  // 128 * 128 * k fits 32 bits up to here

void check_size(int64_t k, int64_t n) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (k >= 1 && n >= 1 && k <= kMost && n <= kMost && k <= (int64_t{1} << 44) / n) return;
  throw Error(Code::kBadArgument, fmt::format("a weight matrix of {} x {}; both sides must be at least 1 and fit in memory", k, n));
}

int64_t element_bytes(WeightFormat format) { return format == WeightFormat::kF32 ? 4 : 2; }

WeightFormat block_format(int bits) {
  return bits == 8 ? WeightFormat::kBlocks8 : bits == 6 ? WeightFormat::kBlocks6 : WeightFormat::kBlocks4;
}

template <class T>
T read_at(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

void unpack_float_column(const PackedWeights& w, int64_t column, float* out) {
  const int64_t size = element_bytes(w.layout.format);
  const std::byte* p = w.data + column / 32 * w.layout.panel_bytes + column % 32 * size;
  for (int64_t k = 0; k < w.layout.k; ++k, p += 32 * size) {
    switch (w.layout.format) {
      case WeightFormat::kF16: out[k] = read_at<Half>(p); break;
      case WeightFormat::kBF16: out[k] = read_at<BFloat16>(p); break;
      default: out[k] = read_at<float>(p); break;
    }
  }
}

// The codes of one column in one step of a block, as block_code() has them.
void step_codes(const WeightLayout& layout, const std::byte* step, int64_t lane, int64_t n, int* codes) {
  const std::byte* at = step + lane * 4;
  if (layout.format == WeightFormat::kBlocks8) {
    for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<int8_t>(at[i / 4 * 64 + i % 4]);
    return;
  }
  for (int64_t i = 0; i < n / 2; ++i) {
    const int two = std::to_integer<int>(at[i / 4 * 64 + i % 4]);
    codes[i] = two & 15;
    codes[i + n / 2] = two >> 4;
  }
  if (layout.format == WeightFormat::kBlocks4) return;
  for (int64_t i = 0; i < n; ++i) {
    const CodePlace upper = upper_place(layout, lane, i);
    codes[i] |= (std::to_integer<int>(step[upper.byte] >> upper.shift) & 3) << 4;
  }
}

void unpack_block_column(const PackedWeights& w, int64_t column, float* out) {
  const WeightLayout& layout = w.layout;
  const int64_t step = std::min(layout.block, 32), step_bytes = layout.block_bytes / (layout.block / step);
  int codes[32];
  for (int64_t b = 0; b < layout.n_blocks; ++b) {
    const float scale = block_scale(w, column, b);
    const int zero_point = block_zero_point(w, column, b);
    const std::byte* at = w.data + block_place(layout, column / 16, b).bytes_offset;
    for (int64_t k = b * layout.block; k < std::min((b + 1) * layout.block, layout.k); k += step, at += step_bytes) {
      step_codes(layout, at, column % 16, step, codes);
      const int64_t n = std::min(step, layout.k - k);
      for (int64_t i = 0; i < n; ++i) out[k + i] = static_cast<float>(codes[i] - zero_point) * scale;
    }
  }
}

void unpack_channel_column(const PackedWeights& w, int64_t column, float* out) {
  const std::byte* panel = w.data + column / 16 * w.layout.panel_bytes;
  const int64_t lane = column % 16;
  const auto scale = read_at<float>(panel + lane * 4);
  const auto zero_point = read_at<int32_t>(panel + 64 + lane * 4);
  for (int64_t k = 0; k < w.layout.k; ++k) {
    const auto q = read_at<int8_t>(panel + 192 + k / 4 * 64 + lane * 4 + k % 4);
    out[k] = static_cast<float>(q - zero_point) * scale;
  }
}

}  // namespace

int block_bits(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBlocks8: return 8;
    case WeightFormat::kBlocks6: return 6;
    case WeightFormat::kBlocks4: return 4;
    default: return 0;
  }
}

int64_t row_part(const WeightLayout& layout) { return std::min<int64_t>(layout.block, kRowBlock); }

WeightLayout float_layout(WeightFormat format, int64_t k, int64_t n) {
  check_size(k, n);
  WeightLayout l{.format = format, .scales = ScaleFormat::kF32, .has_zero_points = false, .panel_columns = 32, .k = k, .n = n};
  l.n_panels = round_up(n, 32) / 32;
  l.panel_bytes = 32 * k * element_bytes(format);
  l.zero_points_offset = l.size_bytes = l.n_panels * l.panel_bytes;
  return l;
}

WeightLayout block_layout(const BlockFormat& format, int64_t k, int64_t n) {
  check_size(k, n);
  const int block = format.block;
  if ((format.bits != 4 && format.bits != 6 && format.bits != 8) || block < 16 || block > 512 || (block & (block - 1)) != 0) {
    throw Error(Code::kBadArgument, fmt::format("blocks of {} weights of {} bits; expected 4, 6 or 8 bits in blocks of 16, 32, 64, 128, "
                                                "256 or 512",
                                                block, format.bits));
  }
  if (format.scales == ScaleFormat::kF16 && (format.zero_points || block < 32)) {
    throw Error(Code::kBadArgument, "16-bit scales go with blocks of 32 or more without zero points; use 32-bit scales");
  }
  if (format.bits == 6 && format.scales != ScaleFormat::kF16) {
    throw Error(Code::kBadArgument, "weights of 6 bits with 32-bit scales; expected 16-bit scales");
  }
  WeightLayout l{.format = block_format(format.bits),
                 .scales = format.scales,
                 .has_zero_points = format.zero_points || block == 16,
                 .block = block,
                 .panel_columns = 16,
                 .k = k,
                 .n = n};
  const int64_t unit_blocks = format.scales == ScaleFormat::kF16 ? 2 : 1;
  l.n_panels = round_up(n, 16) / 16;
  l.n_blocks = round_up(k, std::max(block, 64)) / block;  // rows have an even number of steps
  l.block_bytes = int64_t{block} * 16 * format.bits / 8;
  l.panel_bytes = round_up(l.n_blocks, unit_blocks) / unit_blocks * 64 + l.n_blocks * l.block_bytes;
  l.zero_points_offset = l.n_panels * l.panel_bytes;
  l.size_bytes = l.zero_points_offset + (l.has_zero_points ? l.n_panels * l.n_blocks * 16 : 0);
  return l;
}

WeightLayout channel_layout(int64_t k, int64_t n) {
  check_size(k, n);
  if (k > kMostChannelK) {
    throw Error(Code::kBadArgument,
                fmt::format("an integer product over {} values; at most {} fit 32 bits, use block-quantized weights", k, kMostChannelK));
  }
  WeightLayout l{
      .format = WeightFormat::kChannels8, .scales = ScaleFormat::kF32, .has_zero_points = true, .panel_columns = 16, .k = k, .n = n};
  l.n_panels = round_up(n, 16) / 16;
  l.panel_bytes = 192 + round_up(k, 4) * 16;
  l.zero_points_offset = l.size_bytes = l.n_panels * l.panel_bytes;
  return l;
}

void unpack_column(const PackedWeights& weights, int64_t column, float* out) {
  switch (weights.layout.format) {
    case WeightFormat::kBlocks8:
    case WeightFormat::kBlocks6:
    case WeightFormat::kBlocks4: return unpack_block_column(weights, column, out);
    case WeightFormat::kChannels8: return unpack_channel_column(weights, column, out);
    default: return unpack_float_column(weights, column, out);
  }
}

}  // namespace kvik::cpu
