#pragma once

#include "kernels/cpu/rows.h"
#include "kernels/cpu/weights.h"

// Used for fewer rows than tiles pay for.
namespace kvik::cpu::avx512 {
void matmul_bytes(const PackedWeights& weights, const ByteRows& x, const MatmulOut& out, PanelRange range);
}
namespace kvik::cpu::avx512_prefetch {
void matmul_quantized(const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out, PanelRange range);
}

// What this instruction set has of its own; everything else is that of avx512_prefetch/.
namespace kvik::cpu::amx {

constexpr int64_t kFewestTileRows = 5;      // fewer rows are faster without tiles
constexpr int64_t kFewestFourBitRows = 32;  // the same of 4-bit weights in blocks of 32, whose products are half empty

void matmul_tiles(const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out, PanelRange range);
void matmul_byte_tiles(const PackedWeights& weights, const ByteRows& x, const MatmulOut& out, PanelRange range);

}  // namespace kvik::cpu::amx
