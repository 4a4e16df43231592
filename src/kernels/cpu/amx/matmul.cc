#include "kernels/cpu/amx/vec.h"
// The vector comes first: the bodies are written over it.
#include "kernels/cpu/amx/table.h"
#include "kernels/cpu/body/matmul_float.h"

namespace kvik::cpu::amx {

void matmul_eight_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  avx512::matmul_eight_f32(weights, x, out, range);
}

void matmul_six_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  avx512::matmul_six_f32(weights, x, out, range);
}

void matmul_four_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range) {
  avx512::matmul_four_f32(weights, x, out, range);
}

}  // namespace kvik::cpu::amx
