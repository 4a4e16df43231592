#include "kernels/cpu/avx512_prefetch/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/body/matmul_float.h"

// Quantized weights by rows in f32 are computed without prefetches.
namespace kvik::cpu {

namespace avx512 {
void matmul_eight_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
void matmul_six_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
void matmul_four_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
}  // namespace avx512

namespace avx512_prefetch {

void matmul_eight_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  avx512::matmul_eight_f32(weights, x, out, range);
}

void matmul_six_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  avx512::matmul_six_f32(weights, x, out, range);
}

void matmul_four_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  avx512::matmul_four_f32(weights, x, out, range);
}

}  // namespace avx512_prefetch
}  // namespace kvik::cpu
