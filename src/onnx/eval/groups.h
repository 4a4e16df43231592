#pragma once

#include "onnx/eval/kernel.h"

// Each file under ops/ adds its operators to the table through one function, declared here.
namespace kvik::onnx {

void add_movement(KernelTable& table);

void add_attention(KernelTable& table);
void add_fused_activation(KernelTable& table);
void add_fused_matmul(KernelTable& table);
void add_linear_attention(KernelTable& table);
void add_quantize(KernelTable& table);
void add_quantized_matmul(KernelTable& table);
void add_rotary(KernelTable& table);
void add_skip_norm(KernelTable& table);
void add_tensor_scatter(KernelTable& table);

}  // namespace kvik::onnx
