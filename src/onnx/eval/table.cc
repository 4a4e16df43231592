#include "onnx/eval/groups.h"

namespace kvik::onnx {

const KernelTable& reference_kernels() {
  static const KernelTable kTable = [] {
    KernelTable table;
    add_movement(table);
    return table;
  }();
  return kTable;
}

}  // namespace kvik::onnx
