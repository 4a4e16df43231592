#pragma once

#include <type_traits>

#include "onnx/eval/ops/common.h"

namespace kvik::onnx {

// The type of sums: floats in double, in the order of k; integers wrap.
template <class T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

// A matrix inside a tensor.
template <class T>
struct Matrix {
  const T* data;
  int64_t row_stride;
  int64_t column_stride;

  const T& at(int64_t row, int64_t column) const { return data[row * row_stride + column * column_stride]; }
};

// Row i of a * b; a has `depth` columns, b has row.size() columns.
template <class T>
void multiply_row(const Matrix<T>& a, int64_t i, const Matrix<T>& b, int64_t depth, std::vector<Accumulator<T>>& row) {
  using A = Accumulator<T>;
  const auto n = static_cast<int64_t>(row.size());
  if (b.column_stride != 1) {
    for (int64_t j = 0; j < n; ++j) {
      A total = 0;
      for (int64_t k = 0; k < depth; ++k) total += static_cast<A>(a.at(i, k)) * static_cast<A>(b.at(k, j));
      row[static_cast<size_t>(j)] = total;
    }
    return;
  }
  std::fill(row.begin(), row.end(), A{0});
  A* const to = row.data();
  for (int64_t k = 0; k < depth; ++k) {
    const A x = static_cast<A>(a.at(i, k));
    const T* const from = b.data + k * b.row_stride;
    for (int64_t j = 0; j < n; ++j) to[j] += x * static_cast<A>(from[j]);
  }
}

}  // namespace kvik::onnx
