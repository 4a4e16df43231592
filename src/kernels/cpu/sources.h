#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/weights.h"
#include "tensor/dtype.h"

namespace kvik::cpu {

// A matrix of floats as a file has it. A view.
struct FloatSource {
  DType dtype;  // f32, f16, bf16 or f64
  const void* data;
  int64_t k, n;
  bool n_major;  // [n][k]; otherwise [k][n]
};

// Integers of a quantized matrix, wherever they lie: the element of (k, n), or of (block, n), is number k * k_stride + n * n_stride.
// 4-bit elements are packed, low nibble first.
struct CodeArray {
  const void* data = nullptr;
  DType dtype = DType::kU8;  // u8, i8, u4, i4; zero points may be i32 too
  int64_t k_stride = 0, n_stride = 0;
};

struct ScaleArray {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // f32, f16 or bf16
  int64_t k_stride = 0, n_stride = 0;
};

// w[k][n] = (code(k, n) - zero_point(k / block, n)) * scale(k / block, n): MatMulNBits, GatherBlockQuantized (n is the row of the
// table), DequantizeLinear by block, by channel (strides of 0 along k) or by tensor, and the weights of integer matrix products.
struct QuantSource {
  int64_t k, n;
  int64_t block;  // k that share a scale
  CodeArray codes;
  ScaleArray scales;
  CodeArray zero_points;  // data = null: 0 for signed codes, 8 or 128 for unsigned ones, as in MatMulNBits
};

// The tensors of a MatMulNBits node: codes [n][k / block][block * bits / 8], scales [n][k / block], optional zero points packed
// along k / block, each row of them on a byte boundary.
struct NBitsTensors {
  int64_t k, n;
  int bits;  // 4 or 8
  int64_t block;
  const void* codes;
  const void* scales;
  DType scales_dtype;
  const void* zero_points;  // u8 bytes, or null
};
QuantSource nbits_source(const NBitsTensors& tensors);

int code_at(const CodeArray& array, int64_t k, int64_t n);
float scale_at(const ScaleArray& array, int64_t k, int64_t n);
int zero_point_at(const QuantSource& source, int64_t block, int64_t n);

// Values of column n (row n of an embedding table), k values from the first one on; any thread.
void read_column(const FloatSource& source, int64_t n, int64_t first, int64_t count, float* out);
void read_column(const QuantSource& source, int64_t n, float* out);  // all k

// The layout that keeps a quantized source exactly: its codes, its scales, and its zero points unless they change nothing. Throws
// Error(kUnsupported) where none does; then the weights have to be read as floats.
WeightLayout layout_for(const QuantSource& source);

}  // namespace kvik::cpu
