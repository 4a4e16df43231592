#pragma once

#include "kernels/cpu/kernels.h"

// The entries of a table, each defined in one file of the instruction set's folder. Requires KVIK_ISA.
namespace kvik::cpu::KVIK_ISA {

void matmul(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
void matmul_four_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
void matmul_six_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
void matmul_eight_f32(const PackedWeights& weights, const FloatRows& x, const MatmulOut& out, PanelRange range);
void matmul_quantized(const PackedWeights& weights, const QuantizedRows& x, const MatmulOut& out, PanelRange range);
void matmul_bytes(const PackedWeights& weights, const ByteRows& x, const MatmulOut& out, PanelRange range);
void quantize_row(const float* x, const QuantizedRows& rows, int64_t row);
void quantize_gated_row(Unary op, const float* a, const float* b, const QuantizedRows& rows, int64_t row);
void quantize_bytes_row(const float* x, const ByteRows& rows, int64_t row);
void f16_to_f32(const Half* x, float* y, int64_t n);
void bf16_to_f32(const BFloat16* x, float* y, int64_t n);
void f32_to_f16(const float* x, Half* y, int64_t n);
void unary(Unary op, const float* x, float* y, int64_t n);
void binary(Binary op, Operand a, Operand b, float* y, int64_t n);
void gate(Unary op, const float* a, const float* b, float* y, int64_t n);
void where(Operand condition, Operand yes, Operand no, float* y, int64_t n);
void clip(const float* x, float low, float high, float* y, int64_t n);
void rms_norm(const float* x, float* y, int64_t n, const NormArgs& args);
void layer_norm(const float* x, float* y, int64_t n, const NormArgs& args);
void softmax(const float* x, float* y, int64_t n);
void log_softmax(const float* x, float* y, int64_t n);
float reduce(Reduce op, const float* x, int64_t n);
int64_t argmax(const float* x, int64_t n);
void rotary(float* x, const RotaryArgs& args);
void append(const KvLayout& layout, std::byte* page, int64_t slot, const float* k, const float* v);
void attend(const KvLayout& layout, const AttendRule& rule, const KvPages& kv, int64_t span, const AttendQuery* queries, int64_t n,
            float* const* parts);
void merge(float* into, const float* part, int64_t value_stride);
void finish(const float* part, const float* sink, int64_t value_dim, float* out);
uint64_t read_bytes(const std::byte* p, int64_t n);

extern const CpuKernels kernels;

}  // namespace kvik::cpu::KVIK_ISA
