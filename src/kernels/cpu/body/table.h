#pragma once

#include "kernels/cpu/body/declarations.h"

#define KVIK_TEXT_OF(x) #x
#define KVIK_TEXT(x) KVIK_TEXT_OF(x)

namespace kvik::cpu::KVIK_ISA {

constinit const CpuKernels kernels = {
    .name = KVIK_TEXT(KVIK_ISA),
    .float_row_tile = 2 * kFloatRows,
    .byte_row_tile = 2 * kBlockRows,
    .matmul = matmul,
    .matmul_quantized = matmul_quantized,
    .matmul_bytes = matmul_bytes,
    .quantize_row = quantize_row,
    .quantize_gated_row = quantize_gated_row,
    .quantize_bytes_row = quantize_bytes_row,
    .f16_to_f32 = f16_to_f32,
    .bf16_to_f32 = bf16_to_f32,
    .f32_to_f16 = f32_to_f16,
    .unary = unary,
    .binary = binary,
    .gate = gate,
    .where = where,
    .clip = clip,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .softmax = softmax,
    .log_softmax = log_softmax,
    .reduce = reduce,
    .argmax = argmax,
    .rotary = rotary,
    .append = append,
    .attend = attend,
    .merge = merge,
    .finish = finish,
    .read_bytes = read_bytes,
};

}  // namespace kvik::cpu::KVIK_ISA
