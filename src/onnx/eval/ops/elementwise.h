#pragma once

#include <functional>

#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/common.h"

namespace kvik::onnx {

// Applies `f` to every element of a float tensor, in double, rounded once to the type of the tensor.
Tensor map_floats(const Tensor& x, const std::function<double(double)>& f);

// The second operand of a binary operator as it broadcasts: opsets before 7 aligned it at an axis instead of at the end.
Tensor second_operand(const KernelCall& call);

// result[i] = op(a[i], b[i]) after broadcasting; both have elements of type T.
template <class T, class R>
Tensor zip(const Tensor& a, const Tensor& b, R (*op)(T, T)) {
  const Dims dims = broadcast(a.dims(), b.dims());
  Tensor result = new_tensor(kDTypeOf<R>, dims);
  const auto left = a.data<T>();
  const auto right = b.data<T>();
  const auto to = result.mutable_data<R>();
  size_t i = 0;
  for (Walk<2> walk(dims, {broadcast_strides(a.dims(), dims), broadcast_strides(b.dims(), dims)}); walk.more(); walk.next()) {
    to[i++] = op(left[static_cast<size_t>(walk.offset(0))], right[static_cast<size_t>(walk.offset(1))]);
  }
  return result;
}

}  // namespace kvik::onnx
