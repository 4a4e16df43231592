#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/common.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

void softmax_row(std::vector<double>& row) {
  double most = -std::numeric_limits<double>::infinity();
  for (const double x : row) most = std::max(most, x);
  double total = 0;
  for (double& x : row) total += x = std::exp(x - most);
  for (double& x : row) x /= total;
}

void log_softmax_row(std::vector<double>& row) {
  double most = -std::numeric_limits<double>::infinity();
  for (const double x : row) most = std::max(most, x);
  double total = 0;
  for (const double x : row) total += std::exp(x - most);
  for (double& x : row) x = x - most - std::log(total);
}

void hardmax_row(std::vector<double>& row) {
  if (row.empty()) return;
  const auto first = std::max_element(row.begin(), row.end()) - row.begin();
  std::fill(row.begin(), row.end(), 0.0);
  row[static_cast<size_t>(first)] = 1.0;
}

// Before opset 13, a row is all axes from the given one; since then, only that axis.
AxisSplit rows_of(const KernelCall& call) {
  const Tensor& x = call.input(0);
  if (call.node.opset >= 13) return split_at(x.dims(), normal_axis(call.node.int_or("axis", -1), x.rank()));
  int64_t axis = call.node.int_or("axis", 1);
  if (axis < 0) axis += x.rank();
  require(axis >= 0 && axis <= x.rank(), "axis {} is outside a tensor of rank {}", axis, x.rank());
  return {product(x.dims(), 0, static_cast<int>(axis)), product(x.dims(), static_cast<int>(axis), x.rank()), 1};
}

template <void (*kRow)(std::vector<double>&)>
Tensors by_row(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const auto [outer, n, inner] = rows_of(call);
  Tensor result = new_tensor(x.dtype(), x.dims());
  if (x.size() == 0) return {result};
  visit_float(x.dtype(), [&]<class T>(Type<T>) {
    const auto from = x.data<T>();
    const auto to = result.mutable_data<T>();
    std::vector<double> row(static_cast<size_t>(n));
    for (int64_t r = 0; r < outer * inner; ++r) {
      const auto start = static_cast<size_t>(r / inner * n * inner + r % inner);
      for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<double>(from[start + i * static_cast<size_t>(inner)]);
      kRow(row);
      for (size_t i = 0; i < row.size(); ++i) to[start + i * static_cast<size_t>(inner)] = static_cast<T>(row[i]);
    }
  });
  return {result};
}

}  // namespace

void add_softmax(KernelTable& table) {
  table.add("Hardmax", in_f32<by_row<hardmax_row>>);
  table.add("LogSoftmax", in_f32<by_row<log_softmax_row>>);
  table.add("Softmax", in_f32<by_row<softmax_row>>);
}

}  // namespace kvik::onnx
