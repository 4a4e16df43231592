#pragma once

#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/body/six_bits.h"

// Block-quantized weights as tile products take them: bytes, and scales in 32 bits.
namespace kvik::cpu::amx {

constexpr int kStep = 32, kStepBytes = kStep * kLanes;
constexpr int kRowSteps = kRowBlock / kStep;  // of a block of the rows
constexpr int kPanels = 2;                    // that share each tile of the rows
constexpr int kChunkSteps = 16;               // of which both panels stay in the first-level cache while rows pass

// A stretch of k of one panel.
struct Chunk {
  int n_steps;                         // even, as in QuantizedRows
  int part_steps, n_parts;             // the last part may have fewer steps
  const int8_t* weights[kChunkSteps];  // of each part, kStepBytes for each of its steps
  alignas(64) float scales[kChunkSteps][kLanes];
  alignas(64) int8_t unpacked[kChunkSteps][kStepBytes];

  int steps_of(int part) const {
    const int left = n_steps - part * part_steps;
    return left < part_steps ? left : part_steps;
  }
};

// w - zero point of 6-bit weights, as bytes.
KVIK_INLINE void unpack_six(const uint8_t* lines, int8_t* to) {
  const I zero_point = _mm512_set1_epi8(32);
  for (int line = 0; line < 4; ++line) {
    const SixBits codes = six_bits(lines, line);
    _mm512_store_si512(to + line * 64, _mm512_sub_epi8(codes.low, zero_point));
    _mm512_store_si512(to + (line + 4) * 64, _mm512_sub_epi8(codes.high, zero_point));
  }
}

// The same of 4-bit weights.
KVIK_INLINE void unpack_four(const uint8_t* lines, I zero_points, int8_t* to) {
  const I nibble = _mm512_set1_epi8(15);
  for (int line = 0; line < 4; ++line) {
    const I both = _mm512_loadu_si512(lines + line * 64);
    _mm512_store_si512(to + line * 64, _mm512_sub_epi8(_mm512_and_si512(both, nibble), zero_points));
    _mm512_store_si512(to + (line + 4) * 64, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(both, 4), nibble), zero_points));
  }
}

// The zero points of a block of 4-bit weights, four times each.
KVIK_INLINE I zero_points_of(const PackedWeights& m, int64_t panel, int64_t block) {
  const WeightLayout& layout = m.layout;
  if (!layout.has_zero_points) return _mm512_set1_epi8(8);
  const auto* points = reinterpret_cast<const uint8_t*>(m.data) + layout.zero_points_offset;
  return _mm512_mullo_epi32(iload_u8(points + (panel * layout.n_blocks + block) * kLanes), _mm512_set1_epi32(0x01010101));
}

// chunk.n_steps and part_steps are set.
template <class Scale>
void prepare(const PackedWeights& m, int64_t panel, int64_t first_step, Chunk& chunk) {
  const WeightLayout& layout = m.layout;
  const auto* data = reinterpret_cast<const uint8_t*>(m.data) + panel * layout.panel_bytes;
  const int64_t steps_per_block = layout.block / kStep, unit_blocks = sizeof(Scale) == 2 ? 2 : 1;
  const int64_t step_bytes = layout.block_bytes / steps_per_block;
  chunk.n_parts = (chunk.n_steps + chunk.part_steps - 1) / chunk.part_steps;
  for (int part = 0; part < chunk.n_parts; ++part) {
    const int64_t step = first_step + part * chunk.part_steps, block = step / steps_per_block;
    const uint8_t* unit = data + block / unit_blocks * (64 + unit_blocks * layout.block_bytes);
    store(chunk.scales[part], load(reinterpret_cast<const Scale*>(unit) + block % unit_blocks * kLanes));
    const uint8_t* lines = unit + 64 + block % unit_blocks * layout.block_bytes + step % steps_per_block * step_bytes;
    chunk.weights[part] = reinterpret_cast<const int8_t*>(lines);
    if (layout.format == WeightFormat::kBlocks8) continue;
    int8_t* unpacked = chunk.unpacked[part * chunk.part_steps];
    chunk.weights[part] = unpacked;
    for (int s = 0; s < chunk.steps_of(part); ++s, lines += step_bytes, unpacked += kStepBytes) {
      if (layout.format == WeightFormat::kBlocks6)
        unpack_six(lines, unpacked);
      else
        unpack_four(lines, zero_points_of(m, panel, block), unpacked);
    }
  }
}

}  // namespace kvik::cpu::amx
