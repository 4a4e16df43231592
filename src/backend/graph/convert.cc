#include "backend/graph/convert.h"

#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::backend {
namespace {

template <class Visit>
void visit_float(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kF32: visit(float{}); break;
    case DType::kF16: visit(Half{}); break;
    case DType::kBF16: visit(BFloat16{}); break;
    case DType::kF64: visit(double{}); break;
    default: throw Error(Code::kBadModel, fmt::format("found a tensor of {}; expected floating point", dtype_name(dtype)));
  }
}

template <class Target, class From>
Target converted(From value) {
  if constexpr (std::is_same_v<Target, double>) {
    return static_cast<double>(value);
  } else {
    return Target(static_cast<float>(value));
  }
}

}  // namespace

Tensor cast_float(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  Tensor result(dtype, tensor.dims());
  visit_float(tensor.dtype(), [&](auto from) {
    visit_float(dtype, [&](auto to) {
      const auto source = tensor.data<decltype(from)>();
      const auto target = result.mutable_data<decltype(to)>();
      for (size_t i = 0; i < source.size(); ++i) target[i] = converted<decltype(to)>(source[i]);
    });
  });
  return result;
}

Tensor cast_integer(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  if (dtype != DType::kI32)
    throw Error(Code::kBadModel, fmt::format("the graph reads token ids as {}; only i64 and i32 are supported", dtype_name(dtype)));
  Tensor result(dtype, tensor.dims());
  const std::span<const int64_t> source = tensor.data<int64_t>();
  const std::span<int32_t> target = result.mutable_data<int32_t>();
  for (size_t i = 0; i < source.size(); ++i) target[i] = static_cast<int32_t>(source[i]);
  return result;
}

void copy_floats(const Tensor& tensor, int64_t from, std::span<float> target) {
  visit_float(tensor.dtype(), [&](auto type) {
    const auto source = tensor.data<decltype(type)>().subspan(static_cast<size_t>(from), target.size());
    for (size_t i = 0; i < target.size(); ++i) target[i] = converted<float>(source[i]);
  });
}

}  // namespace kvik::backend
