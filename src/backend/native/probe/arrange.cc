#include "backend/native/probe/arrange.h"

#include <algorithm>
#include <fmt/format.h>

#include "onnx/eval/ops/common.h"
#include "tensor/copy.h"

namespace kvik::native {
namespace {

// The order of a value's factors in memory, and the required order.
struct Order {
  Dims extents;  // wanted order
  Dims strides;  // of the value, in that order
  size_t n_front = 0;
};

Order order_of(const Axes& axes, const Sizes& sizes, std::span<const Symbol> front) {
  std::vector<Factor> factors;
  for (const Axis& axis : axes) factors.insert(factors.end(), axis.begin(), axis.end());
  Dims extents;
  for (const Factor& factor : factors) extents.push_back(sizes.of(factor));
  const Dims strides = strides_of(extents);

  Order order;
  std::vector<bool> taken(factors.size(), false);
  for (const Symbol symbol : front) {
    const auto found = std::find_if(factors.begin(), factors.end(), [&](const Factor& f) { return f.is_symbol() && f.symbol == symbol; });
    const auto at = static_cast<size_t>(found - factors.begin());
    order.extents.push_back(found == factors.end() ? 1 : extents[at]);
    order.strides.push_back(found == factors.end() ? 0 : strides[at]);
    if (found != factors.end()) taken[at] = true;
  }
  order.n_front = front.size();
  for (size_t i = 0; i < factors.size(); ++i) {
    if (taken[i]) continue;
    order.extents.push_back(extents[i]);
    order.strides.push_back(strides[i]);
  }
  return order;
}

bool has_other_symbol(const Axes& axes, std::span<const Symbol> front) {
  return std::ranges::any_of(axes, [&](const Axis& axis) {
    return std::ranges::any_of(
        axis, [&](const Factor& factor) { return factor.is_symbol() && std::ranges::find(front, factor.symbol) == front.end(); });
  });
}

}  // namespace

Expected<std::vector<float>> arrange(const Tensor& tensor, const Axes& axes, const Sizes& sizes, std::span<const Symbol> front) {
  if (tensor.dims() != sizes.of(axes)) {
    return refuse(fmt::format("a value of shape {} was computed; {} was expected", kvik::to_string(tensor.dims()), to_string(axes)));
  }
  if (has_other_symbol(axes, front))
    return refuse(fmt::format("a value with axes {} was found where no other sequence axis was expected", to_string(axes)));
  const Tensor floats = to_floats(tensor);
  const Order order = order_of(axes, sizes, front);
  std::vector<float> result(static_cast<size_t>(floats.size()));
  const BoxCopy box = {order.extents, order.strides, strides_of(order.extents), sizeof(float)};
  if (!result.empty()) copy_box(box, floats.bytes().data(), reinterpret_cast<std::byte*>(result.data()));
  return result;
}

Tensor spread(std::span<const float> numbers, const Axes& axes, const Sizes& sizes, std::span<const Symbol> front) {
  Tensor result(DType::kF32, sizes.of(axes));
  const Order order = order_of(axes, sizes, front);
  const bool whole = static_cast<int64_t>(numbers.size()) == result.size();
  Dims from = strides_of(order.extents);
  if (!whole) {
    const Dims outer = strides_of(std::span(order.extents).first(order.n_front));
    std::fill(from.begin(), from.end(), 0);
    if (numbers.size() > 1) std::copy(outer.begin(), outer.end(), from.begin());
  }
  const BoxCopy box = {order.extents, from, order.strides, sizeof(float)};
  const std::span<const std::byte> source = std::as_bytes(numbers);
  if (result.size() > 0) copy_box(box, source.data(), result.mutable_bytes().data());
  return result;
}

int64_t row_elements(const Axes& axes) {
  int64_t n = 1;
  for (const Axis& axis : axes) n *= row_size(axis);
  return n;
}

Tensor to_floats(const Tensor& tensor) {
  if (tensor.dtype() == DType::kF32) return tensor;
  Tensor result(DType::kF32, tensor.dims());
  if (tensor.dtype() == DType::kBool) {
    const std::span<const bool> from = tensor.data<bool>();
    std::copy(from.begin(), from.end(), result.mutable_data<float>().begin());
    return result;
  }
  const std::vector<double> numbers = onnx::as_doubles(tensor);
  const std::span<float> target = result.mutable_data<float>();
  for (size_t i = 0; i < target.size(); ++i) target[i] = static_cast<float>(numbers[i]);
  return result;
}

}  // namespace kvik::native
