#include "onnx/eval/groups.h"

namespace kvik::onnx {

const KernelTable& reference_kernels() {
  static const KernelTable kTable = [] {
    KernelTable table;
    add_activation(table);
    add_binary(table);
    add_blocks(table);
    add_cast(table);
    add_cumulative(table);
    add_gather(table);
    add_logic(table);
    add_movement(table);
    add_pad(table);
    add_reduce(table);
    add_scatter(table);
    add_select(table);
    add_shape_ops(table);
    add_slicing(table);
    add_softmax(table);
    add_unary(table);
    return table;
  }();
  return kTable;
}

}  // namespace kvik::onnx
