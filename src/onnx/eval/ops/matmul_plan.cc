#include "onnx/eval/ops/matmul_plan.h"

#include <algorithm>

#include "onnx/eval/ops/common.h"

namespace kvik::onnx {
namespace {

void require_fit(bool fit, const Dims& a, const Dims& b) {
  require(fit, "tensors of shapes {} and {} cannot be multiplied", to_string(a), to_string(b));
}

// For every position of `batch`, the position in `own`, whose axes are the last of `batch`, sizes 1 broadcast.
std::vector<int64_t> matrices(const Dims& batch, const Dims& own) {
  const int64_t n = element_count(batch);
  const Dims strides = strides_of(own);
  const size_t lead = batch.size() - own.size();
  std::vector<int64_t> result(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, index = 0;
    for (size_t axis = batch.size(); axis-- > 0;) {
      const int64_t at = rest % batch[axis];
      rest /= batch[axis];
      if (axis >= lead && own[axis - lead] != 1) index += at * strides[axis - lead];
    }
    result[static_cast<size_t>(i)] = index;
  }
  return result;
}

}  // namespace

MatMulPlan plan_matmul(Dims a, Dims b, const Work& work) {
  require_fit(!a.empty() && !b.empty(), a, b);
  const Dims given_a = a, given_b = b;
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  MatMulPlan plan;
  plan.m = a[a.size() - 2];
  plan.k = a.back();
  plan.n = b.back();
  require_fit(b[b.size() - 2] == plan.k, given_a, given_b);
  const Dims batch_a(a.begin(), a.end() - 2), batch_b(b.begin(), b.end() - 2);
  Dims batch(std::max(batch_a.size(), batch_b.size()), 1);
  for (size_t i = 0; i < batch.size(); ++i) {
    const int64_t x = i < batch_a.size() ? batch_a[batch_a.size() - 1 - i] : 1;
    const int64_t y = i < batch_b.size() ? batch_b[batch_b.size() - 1 - i] : 1;
    require_fit(x == y || x == 1 || y == 1, given_a, given_b);
    batch[batch.size() - 1 - i] = x == 1 ? y : x;
  }
  plan.output = batch;
  if (given_a.size() > 1) plan.output.push_back(plan.m);
  if (given_b.size() > 1) plan.output.push_back(plan.n);
  work.take(plan.output, {std::max<int64_t>(1, plan.k)});
  plan.a_matrix = matrices(batch, batch_a);
  plan.b_matrix = matrices(batch, batch_b);
  return plan;
}

std::vector<double> multiply(const MatMulPlan& plan, std::span<const double> a, std::span<const double> b) {
  std::vector<double> result(static_cast<size_t>(element_count(plan.output)));
  const auto m = static_cast<size_t>(plan.m), k = static_cast<size_t>(plan.k), n = static_cast<size_t>(plan.n);
  for (size_t p = 0; p < plan.a_matrix.size() && !result.empty(); ++p) {
    const std::span<const double> left = a.subspan(static_cast<size_t>(plan.a_matrix[p]) * m * k, m * k);
    const std::span<const double> right = b.subspan(static_cast<size_t>(plan.b_matrix[p]) * k * n, k * n);
    for (size_t r = 0; r < m; ++r) {
      double* row = result.data() + (p * m + r) * n;
      for (size_t i = 0; i < k; ++i) {
        const double x = left[r * k + i];
        for (size_t c = 0; c < n; ++c) row[c] += x * right[i * n + c];
      }
    }
  }
  return result;
}

std::vector<double> permuted(std::span<const double> values, const Dims& dims, std::span<const int> order) {
  const Dims strides = strides_of(dims);
  std::vector<double> result(values.size());
  for (size_t i = 0; i < result.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t from = 0;
    for (size_t axis = order.size(); axis-- > 0;) {
      const auto source = static_cast<size_t>(order[axis]);
      from += rest % dims[source] * strides[source];
      rest /= dims[source];
    }
    result[i] = values[static_cast<size_t>(from)];
  }
  return result;
}

std::vector<double> multiply_transposed(std::span<const double> x, std::span<const double> w, std::span<const double> bias, int64_t inner) {
  const auto k = static_cast<size_t>(inner);
  const size_t rows = k == 0 ? 0 : x.size() / k, columns = k == 0 ? 0 : w.size() / k;
  std::vector<double> result(rows * columns);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      double sum = bias.empty() ? 0.0 : bias[c];
      for (size_t i = 0; i < k; ++i) sum += x[r * k + i] * w[c * k + i];
      result[r * columns + c] = sum;
    }
  }
  return result;
}

}  // namespace kvik::onnx
