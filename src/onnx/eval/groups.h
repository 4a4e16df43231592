#pragma once

#include "onnx/eval/kernel.h"

// One function per file in ops/, which adds its operators to the table.
namespace kvik::onnx {

void add_activation(KernelTable& table);
void add_attention(KernelTable& table);
void add_binary(KernelTable& table);
void add_block_float(KernelTable& table);
void add_block_quantized(KernelTable& table);
void add_blocks(KernelTable& table);
void add_cast(KernelTable& table);
void add_control_flow(KernelTable& table);
void add_conv(KernelTable& table);
void add_cumulative(KernelTable& table);
void add_dropout(KernelTable& table);
void add_einsum(KernelTable& table);
void add_fused_activation(KernelTable& table);
void add_fused_matmul(KernelTable& table);
void add_gather(KernelTable& table);
void add_gather_block_quantized(KernelTable& table);
void add_group_query_attention(KernelTable& table);
void add_linear_attention(KernelTable& table);
void add_logic(KernelTable& table);
void add_matmul(KernelTable& table);
void add_microsoft_attention(KernelTable& table);
void add_microsoft_tensor(KernelTable& table);
void add_moe(KernelTable& table);
void add_movement(KernelTable& table);
void add_multi_head_attention(KernelTable& table);
void add_normalization(KernelTable& table);
void add_pad(KernelTable& table);
void add_paged_attention(KernelTable& table);
void add_pool(KernelTable& table);
void add_quantize(KernelTable& table);
void add_quantized_conv(KernelTable& table);
void add_quantized_elementwise(KernelTable& table);
void add_quantized_matmul(KernelTable& table);
void add_recurrent(KernelTable& table);
void add_reduce(KernelTable& table);
void add_resize(KernelTable& table);
void add_rotary(KernelTable& table);
void add_sampling(KernelTable& table);
void add_scatter(KernelTable& table);
void add_select(KernelTable& table);
void add_shape_ops(KernelTable& table);
void add_signal(KernelTable& table);
void add_skip_norm(KernelTable& table);
void add_slicing(KernelTable& table);
void add_softmax(KernelTable& table);
void add_sparse_attention(KernelTable& table);
void add_tensor_scatter(KernelTable& table);
void add_unary(KernelTable& table);
void add_unique(KernelTable& table);

}  // namespace kvik::onnx
