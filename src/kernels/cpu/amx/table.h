#pragma once

#include "kernels/cpu/rows.h"
#include "kernels/cpu/weights.h"

// Used by this instruction set.
namespace kvik::cpu::avx512 {

void matmul_eight_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
void matmul_six_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
void matmul_four_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
void matmul_bytes(const PackedWeights& weights, const ByteRows& x, const MatmulOut& out, PanelRange range);

}  // namespace kvik::cpu::avx512

// What this instruction set has of its own; everything else is that of AVX-512.
namespace kvik::cpu::amx {

constexpr int64_t kFewestTileRows = 5;  // fewer rows are faster without tiles

void matmul(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
void matmul_tiles(const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out, PanelRange range);
void matmul_byte_tiles(const PackedWeights& weights, const ByteRows& x, const MatmulOut& out, PanelRange range);

}  // namespace kvik::cpu::amx
