#include "onnx/eval/groups.h"

namespace kvik::onnx {

const KernelTable& reference_kernels() {
  static const KernelTable kTable = [] {
    KernelTable table;
    add_activation(table);
    add_attention(table);
    add_binary(table);
    add_block_float(table);
    add_block_quantized(table);
    add_blocks(table);
    add_cast(table);
    add_control_flow(table);
    add_conv(table);
    add_cumulative(table);
    add_dropout(table);
    add_einsum(table);
    add_fused_activation(table);
    add_fused_matmul(table);
    add_gather(table);
    add_gather_block_quantized(table);
    add_group_query_attention(table);
    add_linear_attention(table);
    add_logic(table);
    add_matmul(table);
    add_microsoft_attention(table);
    add_microsoft_tensor(table);
    add_moe(table);
    add_movement(table);
    add_multi_head_attention(table);
    add_normalization(table);
    add_pad(table);
    add_paged_attention(table);
    add_pool(table);
    add_quantize(table);
    add_quantized_conv(table);
    add_quantized_elementwise(table);
    add_quantized_matmul(table);
    add_recurrent(table);
    add_reduce(table);
    add_resize(table);
    add_rotary(table);
    add_sampling(table);
    add_scatter(table);
    add_select(table);
    add_shape_ops(table);
    add_signal(table);
    add_skip_norm(table);
    add_slicing(table);
    add_softmax(table);
    add_sparse_attention(table);
    add_tensor_scatter(table);
    add_unary(table);
    add_unique(table);
    return table;
  }();
  return kTable;
}

}  // namespace kvik::onnx
