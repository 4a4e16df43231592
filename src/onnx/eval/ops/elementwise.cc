#include "onnx/eval/ops/elementwise.h"

#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {

Tensor map_floats(const Tensor& x, const std::function<double(double)>& f) {
  const Tensor wide = widened(x);
  return visit_float(wide.dtype(), [&]<class T>(Type<T>) {
    Tensor result(wide.dtype(), wide.dims());
    const auto from = wide.data<T>();
    const auto to = result.mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(f(static_cast<double>(from[i])));
    return narrowed(result, x.dtype());
  });
}

Tensor second_operand(const KernelCall& call) {
  const Tensor& b = call.input(1);
  if (call.node.opset >= 7 || !call.node.has("axis")) return b;
  const int rank = call.input(0).rank();
  const int axis = normal_axis(call.node.int_or("axis", 0), rank);
  require(axis + b.rank() <= rank, "shape {} does not fit at axis {} of {}", to_string(b.dims()), axis, to_string(call.input(0).dims()));
  Dims dims = b.dims();
  dims.resize(static_cast<size_t>(rank - axis), 1);
  return b.reshaped(dims);
}

}  // namespace kvik::onnx
