#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"

namespace kvik::onnx {
namespace {

// By elimination with the largest pivot of each column.
double determinant(std::vector<double>& m, size_t n) {
  double result = 1;
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    for (size_t r = c + 1; r < n; ++r) {
      if (std::fabs(m[r * n + c]) > std::fabs(m[pivot * n + c])) pivot = r;
    }
    if (m[pivot * n + c] == 0) return 0;
    if (pivot != c) {
      for (size_t k = 0; k < n; ++k) std::swap(m[pivot * n + k], m[c * n + k]);
      result = -result;
    }
    result *= m[c * n + c];
    for (size_t r = c + 1; r < n; ++r) {
      const double factor = m[r * n + c] / m[c * n + c];
      for (size_t k = c; k < n; ++k) m[r * n + k] -= factor * m[c * n + k];
    }
  }
  return result;
}

Tensors det(const KernelCall& call) {
  const Tensor& x = call.input(0);
  require(x.rank() >= 2 && x.dim(-1) == x.dim(-2), "a tensor of shape {} holds no square matrices", to_string(x.dims()));
  call.work.take(x.dims(), {x.dim(-1)});
  Tensor result = new_tensor(DType::kF64, {x.dims().begin(), x.dims().end() - 2});
  const std::vector<double> values = as_doubles(x);
  const auto n = static_cast<size_t>(x.dim(-1));
  const auto to = result.mutable_data<double>();
  for (size_t i = 0; i < to.size(); ++i) {
    const auto begin = values.begin() + static_cast<int64_t>(i * n * n);
    std::vector<double> matrix(begin, begin + static_cast<int64_t>(n * n));
    to[i] = determinant(matrix, n);
  }
  return {cast(result, x.dtype())};
}

}  // namespace

void add_determinant(KernelTable& table) { table.add("Det", det); }

}  // namespace kvik::onnx
