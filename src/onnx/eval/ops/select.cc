#include <algorithm>
#include <cmath>
#include <numeric>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

// A total order in which NaN is the largest.
template <class T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return a < b;
}

struct TopKSizes {
  AxisSplit from;
  int64_t k;
  bool largest;
};

template <class T>
void top_k_of(const Tensor& x, const TopKSizes& sizes, Tensor& values, Tensor& indices) {
  const auto source = x.data<T>();
  const auto to = values.mutable_data<T>();
  const auto to_indices = indices.mutable_data<int64_t>();
  const auto [outer, n, inner] = sizes.from;
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t row = 0; row < outer * inner; ++row) {
    const int64_t start = row / inner * n * inner + row % inner;
    const auto at = [&](int64_t i) { return source[static_cast<size_t>(start + i * inner)]; };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return sizes.largest ? less(at(b), at(a)) : less(at(a), at(b)); });
    for (int64_t i = 0; i < sizes.k; ++i) {
      const auto target = static_cast<size_t>((row / inner * sizes.k + i) * inner + row % inner);
      to[target] = at(order[static_cast<size_t>(i)]);
      to_indices[target] = order[static_cast<size_t>(i)];
    }
  }
}

// Always sorted; sorted = 0 allows any order.
Tensors top_k(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const int axis = normal_axis(call.node.int_or("axis", -1), x.rank());
  const int64_t k = call.has(1) ? as_int(call.input(1)) : call.node.int_or("k", -1);
  const TopKSizes sizes = {split_at(x.dims(), axis), k, call.node.int_or("largest", 1) != 0};
  require(k >= 0 && k <= sizes.from.n, "cannot select the top {} of an axis of {}", k, sizes.from.n);
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = k;
  Tensor values = new_tensor(x.dtype(), dims);
  Tensor indices = new_tensor(DType::kI64, dims);
  if (values.size() == 0) return {values, indices};
  visit_numeric(x.dtype(), [&]<class T>(Type<T>) { top_k_of<T>(x, sizes, values, indices); });
  return {values, indices};
}

template <bool kLargest>
Tensors arg_extreme(const KernelCall& call) {
  const Tensor x = widened(call.input(0));
  const int axis = normal_axis(call.node.int_or("axis", 0), x.rank());
  const bool last = call.node.int_or("select_last_index", 0) != 0;
  const auto [outer, n, inner] = split_at(x.dims(), axis);
  require(n > 0, "an empty axis has no maximum or minimum");
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = 1;
  Tensor result = new_tensor(DType::kI64, dims);
  const auto to = result.mutable_data<int64_t>();
  visit_numeric(x.dtype(), [&]<class T>(Type<T>) {
    const auto source = x.data<T>();
    for (size_t row = 0; row < to.size(); ++row) {
      const auto r = static_cast<int64_t>(row);
      const int64_t start = r / inner * n * inner + r % inner;
      const auto at = [&](int64_t i) { return source[static_cast<size_t>(start + i * inner)]; };
      const auto better = [&](int64_t a, int64_t b) {
        if constexpr (std::is_floating_point_v<T>) {
          if (std::isnan(at(a)) || std::isnan(at(b))) return std::isnan(at(a)) && !std::isnan(at(b));
        }
        return kLargest ? at(b) < at(a) : at(a) < at(b);
      };
      int64_t best = 0;
      for (int64_t i = 1; i < n; ++i) {
        if (better(i, best) || (last && !better(best, i))) best = i;
      }
      to[row] = best;
    }
  });
  if (call.node.int_or("keepdims", 1) == 0) dims.erase(dims.begin() + axis);
  return {result.reshaped(dims)};
}

Tensors non_zero(const KernelCall& call) {
  const Tensor flags = cast(call.input(0), DType::kBool);
  const Dims& dims = flags.dims();  // a scalar has no axes, so its index has no rows
  const auto set = flags.data<bool>();
  const int64_t n = std::count(set.begin(), set.end(), true);
  Tensor result = new_tensor(DType::kI64, {static_cast<int64_t>(dims.size()), n});
  const auto to = result.mutable_data<int64_t>();
  const Dims strides = strides_of(dims);
  size_t column = 0;
  for (size_t i = 0; i < set.size(); ++i) {
    if (!set[i]) continue;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      to[axis * static_cast<size_t>(n) + column] = static_cast<int64_t>(i) / strides[axis] % dims[axis];
    }
    ++column;
  }
  return {result};
}

Tensors one_hot(const KernelCall& call) {
  const Tensor places = cast(call.input(0), DType::kI64);
  const int64_t depth = as_int(cast(call.input(1), DType::kI64));
  const Tensor& values = call.input(2);
  require(values.size() == 2, "found values of shape {}; expected [off, on]", to_string(values.dims()));
  require(depth > 0, "found a depth of {}; expected a positive number", depth);
  const int axis = normal_axis(call.node.int_or("axis", -1), places.rank() + 1);
  Dims dims = places.dims();
  dims.insert(dims.begin() + axis, depth);
  Tensor result = new_tensor(values.dtype(), dims);
  ElementWriter writer(result);
  writer.fill(values, 0, 0, result.size());
  const auto [outer, n, inner] = split_at(dims, axis);
  const auto hot = places.data<int64_t>();
  for (int64_t i = 0; i < places.size(); ++i) {
    int64_t index = hot[static_cast<size_t>(i)];
    if (index < -depth || index >= depth) continue;  // a row of off values
    if (index < 0) index += depth;
    writer.copy(values, 1, (i / inner * n + index) * inner + i % inner);
  }
  return {result};
}

}  // namespace

void add_select(KernelTable& table) {
  table.add("ArgMax", arg_extreme<true>);
  table.add("ArgMin", arg_extreme<false>);
  table.add("NonZero", non_zero);
  table.add("OneHot", one_hot);
  table.add("TopK", in_f32<top_k>);
}

}  // namespace kvik::onnx
