#include "onnx/eval/ops/broadcast.h"

#include <algorithm>

#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {

Dims broadcast(const Dims& a, const Dims& b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims result(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t left = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const int64_t right = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    require(left == right || left == 1 || right == 1, "shapes {} and {} do not broadcast", to_string(a), to_string(b));
    result[i] = left == 1 ? right : left;
  }
  return result;
}

Dims broadcast_strides(const Dims& from, const Dims& to) {
  require(from.size() <= to.size(), "shape {} does not broadcast to {}", to_string(from), to_string(to));
  const Dims dense = strides_of(from);
  Dims result(to.size(), 0);
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    require(from[i] == to[lead + i] || from[i] == 1, "shape {} does not broadcast to {}", to_string(from), to_string(to));
    result[lead + i] = from[i] == 1 ? 0 : dense[i];
  }
  return result;
}

Tensor broadcast_to(const Tensor& tensor, const Dims& dims) {
  if (tensor.dims() == dims) return tensor;
  return strided_copy(tensor, 0, dims, broadcast_strides(tensor.dims(), dims));
}

}  // namespace kvik::onnx
