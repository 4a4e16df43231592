#include <algorithm>
#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

// Operators that create a tensor from shapes and parameters.
namespace kvik::onnx {
namespace {

Tensors shape(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const int64_t rank = x.rank();
  const auto cut = [&](std::string_view name, int64_t absent) {
    const int64_t i = call.node.int_or(name, absent);
    return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank);
  };
  const int64_t start = cut("start", 0);
  const int64_t end = std::max(start, cut("end", rank));
  return {Tensor::of<int64_t>({end - start}, std::span(x.dims()).subspan(static_cast<size_t>(start), static_cast<size_t>(end - start)))};
}

Tensors size(const KernelCall& call) { return {Tensor::scalar<int64_t>(call.input(0).size())}; }

std::vector<std::string> owned(const std::vector<std::string_view>& views) { return {views.begin(), views.end()}; }

Tensors constant(const KernelCall& call) {
  const Node& node = call.node;
  if (node.has("value")) return {load(node.tensor("value"))};
  if (node.has("value_float")) return {Tensor::scalar(node.float_or("value_float", 0))};
  if (node.has("value_int")) return {Tensor::scalar(node.int_or("value_int", 0))};
  if (node.has("value_string")) return {Tensor::scalar(std::string(node.string_or("value_string", "")))};
  if (node.has("value_floats")) {
    const std::vector<float> values = node.floats_or("value_floats", {});
    return {Tensor::of({static_cast<int64_t>(values.size())}, values)};
  }
  if (node.has("value_ints")) {
    const std::vector<int64_t> values = node.ints_or("value_ints", {});
    return {Tensor::of({static_cast<int64_t>(values.size())}, values)};
  }
  if (const Attribute* strings = node.find("value_strings")) {
    const auto* views = std::get_if<std::vector<std::string_view>>(&strings->data);
    require(views != nullptr, "value_strings is not a list of strings");
    return {Tensor::of({static_cast<int64_t>(views->size())}, owned(*views))};
  }
  throw Error(Code::kUnsupported, "it has no value, or an unsupported one (a sparse tensor)");
}

Tensors constant_of_shape(const KernelCall& call) {
  const Dims dims = as_ints(call.input(0));
  const Tensor value = call.node.has("value") ? load(call.node.tensor("value")) : Tensor::of<float>({1}, {0.0f});
  require(value.size() == 1, "the value has shape {}; expected one element", to_string(value.dims()));
  Tensor result = new_tensor(value.dtype(), dims);
  ElementWriter(result).fill(value, 0, 0, result.size());
  return {result};
}

// In the arithmetic of the type if that is exact, in double otherwise.
template <class T>
int64_t range_count(T start, T limit, T delta) {
  require(delta != T{0}, "the step of a range is 0");
  if constexpr (std::is_floating_point_v<T>) {
    const double n = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
    require(n < 0x1p56, "a range from {} to {} by {} is too long", start, limit, delta);
    return static_cast<int64_t>(std::max(n, 0.0));
  } else {
    if (delta > T{0} ? limit <= start : limit >= start) return 0;
    const uint64_t span = delta > T{0} ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                       : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
    const uint64_t step = delta > T{0} ? static_cast<uint64_t>(delta) : uint64_t{0} - static_cast<uint64_t>(delta);
    return static_cast<int64_t>(std::min<uint64_t>((span - 1) / step + 1, uint64_t{1} << 60));
  }
}

Tensors range(const KernelCall& call) {
  require_same_dtype(call.input(0), call.input(1));
  require_same_dtype(call.input(0), call.input(2));
  for (size_t i = 0; i < 3; ++i) require(call.input(i).size() == 1, "the bounds of a range must be single numbers");
  return {visit_numeric(call.input(0).dtype(), [&]<class T>(Type<T>) {
    const T start = call.input(0).data<T>()[0];
    const T delta = call.input(2).data<T>()[0];
    const int64_t n = range_count<T>(start, call.input(1).data<T>()[0], delta);
    Tensor result = new_tensor(kDTypeOf<T>, {n});
    const auto to = result.mutable_data<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        to[i] = static_cast<T>(static_cast<double>(start) + static_cast<double>(i) * static_cast<double>(delta));
      } else {
        to[i] = static_cast<T>(static_cast<uint64_t>(start) + i * static_cast<uint64_t>(delta));
      }
    }
    return result;
  })};
}

Tensors eye_like(const KernelCall& call) {
  const Tensor& x = call.input(0);
  require_rank(x, 2, "the input");
  const int64_t dtype = call.node.int_or("dtype", static_cast<int64_t>(x.dtype()));
  require(dtype > 0 && dtype <= kLastDType, "the type {} is unknown", dtype);
  const int64_t k = call.node.int_or("k", 0);
  const Tensor one = cast(Tensor::of<float>({1}, {1.0f}), static_cast<DType>(dtype));
  Tensor result = new_tensor(one.dtype(), x.dims());
  ElementWriter writer(result);
  const int64_t rows = x.dim(0);
  const int64_t columns = x.dim(1);
  if (k <= -rows || k >= columns) return {result};
  for (int64_t i = std::max<int64_t>(0, -k); i < rows && i + k < columns; ++i) writer.copy(one, 0, i * columns + i + k);
  return {result};
}

Tensors trilu(const KernelCall& call) {
  const Tensor& x = call.input(0);
  require(x.rank() >= 2, "a tensor of shape {} is not a matrix", to_string(x.dims()));
  const bool upper = call.node.int_or("upper", 1) != 0;
  const int64_t rows = x.dim(-2);
  const int64_t columns = x.dim(-1);
  const int64_t k = call.has(1) ? std::clamp(as_int(call.input(1)), -rows - 1, columns + 1) : 0;
  if (x.size() == 0) return {x};
  Tensor result = new_tensor(x.dtype(), x.dims());
  ElementWriter writer(result);
  const int64_t n_rows = product(x.dims(), 0, x.rank() - 1);
  for (int64_t r = 0; r < n_rows; ++r) {
    // Columns from the diagonal, or up to it.
    const int64_t diagonal = std::clamp<int64_t>(r % rows + k + (upper ? 0 : 1), 0, columns);
    const int64_t begin = upper ? diagonal : 0;
    writer.copy(x, r * columns + begin, r * columns + begin, upper ? columns - diagonal : diagonal);
  }
  return {result};
}

}  // namespace

void add_shape_ops(KernelTable& table) {
  table.add("Constant", constant);
  table.add("ConstantOfShape", constant_of_shape);
  table.add("EyeLike", eye_like);
  table.add("Range", in_f32<range>);
  table.add("Shape", shape);
  table.add("Size", size);
  table.add("Trilu", trilu);
}

}  // namespace kvik::onnx
