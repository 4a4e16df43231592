#include "onnx/eval/groups.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

// Sums and products are computed in double; integers wrap.
template <class T>
using Running = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

template <bool kProduct>
Tensors cumulative(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const int axis = normal_axis(as_int(call.input(1)), x.rank());
  const bool exclusive = call.node.int_or("exclusive", 0) != 0;
  const bool reverse = call.node.int_or("reverse", 0) != 0;
  const auto [outer, n, inner] = split_at(x.dims(), axis);
  Tensor result = new_tensor(x.dtype(), x.dims());
  if (x.size() == 0) return {result};
  visit_numeric(x.dtype(), [&]<class T>(Type<T>) {
    const auto from = x.data<T>();
    const auto to = result.mutable_data<T>();
    for (int64_t row = 0; row < outer * inner; ++row) {
      const int64_t start = row / inner * n * inner + row % inner;
      Running<T> total = kProduct ? 1 : 0;
      for (int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<size_t>(start + (reverse ? n - 1 - i : i) * inner);
        if (exclusive) to[at] = static_cast<T>(total);
        total = kProduct ? total * static_cast<Running<T>>(from[at]) : total + static_cast<Running<T>>(from[at]);
        if (!exclusive) to[at] = static_cast<T>(total);
      }
    }
  });
  return {result};
}

}  // namespace

void add_cumulative(KernelTable& table) {
  table.add("CumProd", in_f32<cumulative<true>>);
  table.add("CumSum", in_f32<cumulative<false>>);
}

}  // namespace kvik::onnx
