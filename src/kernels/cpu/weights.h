#pragma once

#include <cstddef>
#include <cstdint>

// Weights as the kernels read them: one layout for every instruction set and any number of rows. No inline functions here: the files
// of every instruction set include this.
namespace kvik::cpu {

// A matrix multiplies rows: y[n] = sum over k of x[k] * w[k][n]. Its columns are cut into panels; lanes are columns, so that each sum
// runs over k in one order. A thread reads one panel after another: one stream of ascending 64-byte lines.
//
//   kF32 kF16 kBF16   panel of 32 columns -> [k][32]
//   kBlocks8          panel of 16 columns -> unit -> [64 bytes of scales][block ...]; a unit is one block with f32 scales, two with f16, of
//   which
//                     the last unit may lack the second
//                     block -> step of 32 k (16 where block = 16) -> [group of 4 k][16 columns][4] int8
//   kBlocks4          the same; a byte holds group g of the first half of the step (low nibble) and group g of the second (high)
//                     optional zero points follow all panels: [panel][block][16] u8, as 0..15 or 0..255 with w = q - zero point;
//                     without them w = q - 8 and w = int8
//   kBlocks6          the low nibbles of a step as in kBlocks4, then two lines of the upper bits: bits 0, 2, 4 and 6 of line i begin those
//                     of groups 2i and 2i + 1 as [2i, first half][2i, second half][2i + 1, first][2i + 1, second]; w = q - 32
//   kChannels8        panel of 16 columns -> [16 scales f32][16 zero points i32][16 column sums i32] then [group of 4 k][16][4] int8
//
// k is padded to whole blocks and an even number of steps, n to whole panels, with zeros that change no sum.
enum class WeightFormat : uint8_t { kF32, kF16, kBF16, kBlocks8, kBlocks6, kBlocks4, kChannels8 };
enum class ScaleFormat : uint8_t { kF32, kF16 };

struct WeightLayout {
  WeightFormat format;
  ScaleFormat scales;     // blocks: f16 only without zero points and with block >= 32
  bool has_zero_points;   // blocks
  int32_t block;          // blocks: k that share a scale: 16, 32, 64, 128, 256, 512
  int32_t panel_columns;  // 32 or 16
  int64_t k, n;
  int64_t n_panels;
  int64_t n_blocks;            // blocks stored in a panel, with padding
  int64_t block_bytes;         // of one block in one panel, without scales
  int64_t panel_bytes;         // without zero points
  int64_t zero_points_offset;  // bytes from the start of the data
  int64_t size_bytes;
};

// Throws Error(kBadArgument) for sizes or blocks that no layout exists for. k and n are at least 1.
WeightLayout float_layout(WeightFormat format, int64_t k, int64_t n);
struct BlockFormat {
  int bits = 8;  // 4, 6 or 8; 6 only with 16-bit scales
  int block = 32;
  ScaleFormat scales = ScaleFormat::kF16;
  bool zero_points = false;
};
WeightLayout block_layout(const BlockFormat& format, int64_t k, int64_t n);
WeightLayout channel_layout(int64_t k, int64_t n);
// Of a code: 4, 6 or 8; 0 for formats without blocks.
int block_bits(WeightFormat format);
// QuantizedRows::part of the rows that these weights are multiplied by.
int64_t row_part(const WeightLayout& layout);

// A view: the bytes belong to their maker. data is 64-byte aligned and layout.size_bytes long.
struct PackedWeights {
  WeightLayout layout;
  const std::byte* data;
};

// What the kernels compute with, as f32: w[0..k) of one column, written to out. For tests, and for embeddings that share the
// matrix of the language-model head.
void unpack_column(const PackedWeights& weights, int64_t column, float* out);

}  // namespace kvik::cpu
