#include "onnx/eval/ops/common.h"

#include <algorithm>

#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {

Tensor new_tensor(DType dtype, Dims dims) {
  require(dtype != DType::kUndefined, "a result has no type");
  const int64_t n = element_count(dims);
  const int64_t each = dtype == DType::kString ? static_cast<int64_t>(sizeof(std::string)) * 8 : bits_per_element(dtype);
  if (n > kMostResultBytes / each * 8) {
    throw Error(Code::kTooLarge, fmt::format("a result of shape {} and type {} exceeds the limit of {} bytes", to_string(dims),
                                             dtype_name(dtype), kMostResultBytes));
  }
  return {dtype, std::move(dims)};
}

int normal_axis(int64_t axis, int rank) {
  require(axis >= -rank && axis < rank, "axis {} is outside a tensor of rank {}", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> normal_axes(const std::vector<int64_t>& axes, int rank) {
  std::vector<int> result;
  for (const int64_t axis : axes) result.push_back(normal_axis(axis, rank));
  std::sort(result.begin(), result.end());
  require(std::adjacent_find(result.begin(), result.end()) == result.end(), "an axis is named twice");
  return result;
}

std::vector<int64_t> as_ints(const Tensor& tensor) {
  std::vector<int64_t> result;
  visit_integer(tensor.dtype(), [&]<class T>(Type<T>) {
    for (const T value : tensor.data<T>()) result.push_back(static_cast<int64_t>(value));
  });
  return result;
}

int64_t as_int(const Tensor& tensor) {
  require(tensor.size() == 1, "found a tensor of shape {}; expected one integer", to_string(tensor.dims()));
  return as_ints(tensor)[0];
}

std::vector<double> as_doubles(const Tensor& tensor) {
  const Tensor wide = widened(tensor);
  std::vector<double> result;
  visit_numeric(wide.dtype(), [&]<class T>(Type<T>) {
    for (const T value : wide.data<T>()) result.push_back(static_cast<double>(value));
  });
  return result;
}

double as_double(const Tensor& tensor) {
  require(tensor.size() == 1, "found a tensor of shape {}; expected one number", to_string(tensor.dims()));
  return as_doubles(tensor)[0];
}

bool as_bool(const Tensor& tensor) {
  require(tensor.size() == 1, "found a tensor of shape {}; expected one bool", to_string(tensor.dims()));
  return tensor.data<bool>()[0];
}

std::vector<int64_t> ints_parameter(const KernelCall& call, size_t i, std::string_view attribute, std::vector<int64_t> absent) {
  if (call.has(i)) return as_ints(call.input(i));
  return call.node.ints_or(attribute, std::move(absent));
}

void require_rank(const Tensor& tensor, int rank, std::string_view what) {
  require(tensor.rank() == rank, "{} has shape {}; expected rank {}", what, to_string(tensor.dims()), rank);
}

void require_same_dtype(const Tensor& a, const Tensor& b) {
  require(a.dtype() == b.dtype(), "found inputs of {} and {}; expected the same type", dtype_name(a.dtype()), dtype_name(b.dtype()));
}

int64_t product(const Dims& dims, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; ++i) n *= dims[static_cast<size_t>(i)];
  return n;
}

AxisSplit split_at(const Dims& dims, int axis) {
  return {product(dims, 0, axis), dims[static_cast<size_t>(axis)], product(dims, axis + 1, static_cast<int>(dims.size()))};
}

}  // namespace kvik::onnx
