#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/cpu/attend.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/weights.h"
#include "tensor/small_float.h"

namespace kvik::cpu {

// The CPU kernels of one instruction set. Results of all tables have the same bits (a NaN is a NaN, whatever its bits), and a row's result
// does not depend on what other rows are in a call, on the split of panels or on the thread. Kernels allocate nothing, keep no state, check
// nothing and may be called from any thread; sizes are the caller's promise. Rows may have any length.
struct CpuKernels {
  const char* name;

  // Rows that products compute together, or a multiple: splitting a call anywhere else wastes time.
  int64_t float_row_tile, byte_row_tile;

  // Matrix products of the panels [range.begin, range.end). matmul takes every weight format but kChannels8, with weights converted
  // back to f32; matmul_quantized takes kBlocks8, kBlocks6 and kBlocks4 and rows in parts of row_part(), matmul_bytes kChannels8.
  void (*matmul)(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
  void (*matmul_quantized)(const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out, PanelRange range);
  void (*matmul_bytes)(const PackedWeights& weights, const ByteRows& x, const MatmulOut& out, PanelRange range);

  // Quantizes x, rows.k values, into row `row`; the second one what gate() would give.
  void (*quantize_row)(const float* x, const QuantizedRows& rows, int64_t row);
  void (*quantize_gated_row)(Unary op, const float* a, const float* b, const QuantizedRows& rows, int64_t row);
  void (*quantize_bytes_row)(const float* x, const ByteRows& rows, int64_t row);

  void (*f16_to_f32)(const Half* x, float* y, int64_t n);
  void (*bf16_to_f32)(const BFloat16* x, float* y, int64_t n);
  void (*f32_to_f16)(const float* x, Half* y, int64_t n);

  // Of one row; y may be x or an operand.
  void (*unary)(Unary op, const float* x, float* y, int64_t n);
  void (*binary)(Binary op, Operand a, Operand b, float* y, int64_t n);
  void (*gate)(Unary op, const float* a, const float* b, float* y, int64_t n);  // op(a) * b
  void (*where)(Operand condition, Operand yes, Operand no, float* y, int64_t n);
  void (*clip)(const float* x, float low, float high, float* y, int64_t n);
  void (*rms_norm)(const float* x, float* y, int64_t n, const NormArgs& args);
  void (*layer_norm)(const float* x, float* y, int64_t n, const NormArgs& args);
  void (*softmax)(const float* x, float* y, int64_t n);
  void (*log_softmax)(const float* x, float* y, int64_t n);
  float (*reduce)(Reduce op, const float* x, int64_t n);
  int64_t (*argmax)(const float* x, int64_t n);      // the first of the largest
  void (*rotary)(float* x, const RotaryArgs& args);  // in place

  // Attention; attention.h drives these. Writes k [n_kv_heads * key_dim] and v [n_kv_heads * value_dim] as position `slot` of a page.
  void (*append)(const KvLayout& layout, std::byte* page, int64_t slot, const float* k, const float* v);
  // The parts of n queries over one span; parts[i] has room for kPartHeader + value_stride floats.
  void (*attend)(const KvLayout& layout, const AttendRule& rule, const KvPages& kv, int64_t span, const AttendQuery* queries, int64_t n,
                 float* const* parts);
  void (*merge)(float* into, const float* part, int64_t value_stride);  // in the order of spans
  void (*finish)(const float* part, const float* sink, int64_t value_dim, float* out);

  // Exclusive or of all 64-bit words, only to see how fast memory can be read; n is a multiple of 64.
  uint64_t (*read_bytes)(const std::byte* p, int64_t n);
};

// The fastest table this machine can run.
const CpuKernels& fastest();
// Every table this machine can run, fastest first; the last one is "scalar".
std::span<const CpuKernels* const> available();
// "scalar", "avx2", "avx512", "amx" or "neon"; null when this machine or build has none of that name.
const CpuKernels* by_name(std::string_view name);

}  // namespace kvik::cpu
