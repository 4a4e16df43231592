#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

// Inference only: nothing is dropped. Training mode would drop at random.
Tensors dropout(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const bool training =
      call.node.opset >= 12 ? call.has(2) && as_bool(call.input(2)) : call.node.opset < 7 && call.node.int_or("is_test", 0) == 0;
  if (training && call.node.opset >= 12 && (!call.has(1) || as_double(call.input(1)) != 0)) {
    throw Error(Code::kUnsupported, "training mode drops elements at random; export the model for inference");
  }
  const Tensor one = cast(Tensor::of<float>({1}, {1.0f}), call.node.opset < 10 ? x.dtype() : DType::kBool);
  Tensor mask = new_tensor(one.dtype(), x.dims());
  ElementWriter(mask).fill(one, 0, 0, mask.size());
  return {x, mask};
}

}  // namespace

void add_dropout(KernelTable& table) { table.add("Dropout", dropout); }

}  // namespace kvik::onnx
