#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

// One reduction over the elements of a row. Floats are summed in double; integers wrap.
template <class T>
using Total = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

template <class T>
Total<T> magnitude(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fabs(static_cast<double>(x));
  } else {
    return x < T{0} ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  }
}

// The total of integers, read with the sign of their type.
template <class T>
double real_of(Total<T> total) {
  if constexpr (std::is_floating_point_v<T>) return total;
  return std::is_signed_v<T> ? static_cast<double>(static_cast<int64_t>(total)) : static_cast<double>(total);
}

template <class T>
T from_real(double x) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(x);
  return cast(Tensor::scalar(x), kDTypeOf<T>).template data<T>()[0];
}

template <class T>
Total<T> sum(std::span<const T> row) {
  Total<T> total = 0;
  for (const T x : row) total += static_cast<Total<T>>(x);
  return total;
}

template <class T>
Total<T> sum_of_squares(std::span<const T> row) {
  Total<T> total = 0;
  for (const T x : row) total += static_cast<Total<T>>(x) * static_cast<Total<T>>(x);
  return total;
}

struct Sum {
  template <class T>
  static T of(std::span<const T> row) {
    return static_cast<T>(sum(row));
  }
};

struct Mean {
  template <class T>
  static T of(std::span<const T> row) {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(sum(row) / static_cast<double>(row.size()));
    } else {
      require(!row.empty(), "the mean of no integers is undefined");
      const uint64_t total = sum(row);
      if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<int64_t>(total) / static_cast<int64_t>(row.size()));
      return static_cast<T>(total / row.size());
    }
  }
};

struct Product {
  template <class T>
  static T of(std::span<const T> row) {
    Total<T> total = 1;
    for (const T x : row) total *= static_cast<Total<T>>(x);
    return static_cast<T>(total);
  }
};

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

struct LargestOf {
  template <class T>
  static T of(std::span<const T> row) {
    T best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    for (const T x : row) {
      if (x > best || is_nan(x)) best = x;  // keeps NaN
    }
    return best;
  }
};

struct SmallestOf {
  template <class T>
  static T of(std::span<const T> row) {
    T best = std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
    for (const T x : row) {
      if (x < best || is_nan(x)) best = x;
    }
    return best;
  }
};

struct L1 {
  template <class T>
  static T of(std::span<const T> row) {
    Total<T> total = 0;
    for (const T x : row) total += magnitude(x);
    return static_cast<T>(total);
  }
};

struct L2 {
  template <class T>
  static T of(std::span<const T> row) {
    return from_real<T>(std::sqrt(real_of<T>(sum_of_squares(row))));
  }
};

struct LogSum {
  template <class T>
  static T of(std::span<const T> row) {
    return from_real<T>(std::log(real_of<T>(sum(row))));
  }
};

struct SumSquare {
  template <class T>
  static T of(std::span<const T> row) {
    return static_cast<T>(sum_of_squares(row));
  }
};

struct LogSumExp {
  template <class T>
  static T of(std::span<const T> row) {
    double most = -std::numeric_limits<double>::infinity();
    for (const T x : row) {
      if (is_nan(x)) return x;
      most = std::max(most, static_cast<double>(x));
    }
    if (std::isinf(most)) return from_real<T>(most);
    double total = 0;
    for (const T x : row) total += std::exp(static_cast<double>(x) - most);
    return from_real<T>(most + std::log(total));
  }
};

// The reduced axes and the resulting shapes.
struct Plan {
  Dims kept_dims;  // of the result, without the reduced axes
  Dims kept_strides;
  Dims row_dims;  // of the reduced axes
  Dims row_strides;
  Dims result_dims;  // with keepdims
};

Plan plan_of(const Tensor& x, const std::vector<int>& axes, bool keep) {
  Plan plan;
  const Dims strides = strides_of(x.dims());
  for (int i = 0; i < x.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    if (std::binary_search(axes.begin(), axes.end(), i)) {
      plan.row_dims.push_back(x.dim(i));
      plan.row_strides.push_back(strides[axis]);
      if (keep) plan.result_dims.push_back(1);
    } else {
      plan.kept_dims.push_back(x.dim(i));
      plan.kept_strides.push_back(strides[axis]);
      plan.result_dims.push_back(x.dim(i));
    }
  }
  return plan;
}

template <class Op, class T>
Tensor reduce_rows(const Tensor& x, const Plan& plan) {
  Tensor result = new_tensor(kDTypeOf<T>, plan.kept_dims);
  const auto from = x.data<T>();
  const auto to = result.mutable_data<T>();
  std::vector<T> row(static_cast<size_t>(result.size() == 0 ? 0 : element_count(plan.row_dims)));
  size_t r = 0;
  for (Walk<1> walk(plan.kept_dims, {plan.kept_strides}); walk.more(); walk.next()) {
    size_t i = 0;
    for (Walk<1> inside(plan.row_dims, {plan.row_strides}); inside.more(); inside.next()) {
      row[i++] = from[static_cast<size_t>(walk.offset(0) + inside.offset(0))];
    }
    to[r++] = Op::template of<T>(row);
  }
  return result.reshaped(plan.result_dims);
}

template <class Op>
Tensors reduce(const KernelCall& call) {
  const Tensor& given = call.input(0);
  // Bools are ordered since opset 20: false < true.
  const bool is_bool = given.dtype() == DType::kBool;
  const Tensor x = is_bool ? cast(given, DType::kU8) : given;
  std::vector<int64_t> axes = ints_parameter(call, 1, "axes");
  if (axes.empty()) {
    if (call.node.int_or("noop_with_empty_axes", 0) != 0) return {given};
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  const Plan plan = plan_of(x, normal_axes(axes, x.rank()), call.node.int_or("keepdims", 1) != 0);
  Tensor result = visit_numeric(x.dtype(), [&]<class T>(Type<T>) { return reduce_rows<Op, T>(x, plan); });
  return {is_bool ? cast(result, DType::kBool) : result};
}

}  // namespace

void add_reduce(KernelTable& table) {
  table.add("ReduceL1", in_f32<reduce<L1>>);
  table.add("ReduceL2", in_f32<reduce<L2>>);
  table.add("ReduceLogSum", in_f32<reduce<LogSum>>);
  table.add("ReduceLogSumExp", in_f32<reduce<LogSumExp>>);
  table.add("ReduceMax", in_f32<reduce<LargestOf>>);
  table.add("ReduceMean", in_f32<reduce<Mean>>);
  table.add("ReduceMin", in_f32<reduce<SmallestOf>>);
  table.add("ReduceProd", in_f32<reduce<Product>>);
  table.add("ReduceSum", in_f32<reduce<Sum>>);
  table.add("ReduceSumSquare", in_f32<reduce<SumSquare>>);
}

}  // namespace kvik::onnx
