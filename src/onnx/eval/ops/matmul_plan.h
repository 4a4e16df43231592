#pragma once

#include <span>
#include <vector>

#include "onnx/eval/kernel.h"

namespace kvik::onnx {

// How numpy's matmul pairs two shapes: a batch of [m, k] x [k, n] products, batch axes broadcast.
struct MatMulPlan {
  Dims output;  // after the axes that one-dimensional operands lack have been dropped
  int64_t m = 1, k = 1, n = 1;
  std::vector<int64_t> a_matrix, b_matrix;  // per product: which matrix of a and of b
};

// Takes what the products need. Throws Error(kBadModel) for shapes that cannot be multiplied.
MatMulPlan plan_matmul(Dims a, Dims b, const Work& work);

// Row-major matrices of doubles, one after the other as the plan says.
std::vector<double> multiply(const MatMulPlan& plan, std::span<const double> a, std::span<const double> b);

// The tensor with its axes in another order: axis i of the result is axis order[i] of the argument.
std::vector<double> permuted(std::span<const double> values, const Dims& dims, std::span<const int> order);

// y[r, c] = sum over i of x[r, i] * w[c, i] (+ bias[c] where there is one); x is [rows, inner], w is [columns, inner].
std::vector<double> multiply_transposed(std::span<const double> x, std::span<const double> w, std::span<const double> bias, int64_t inner);

}  // namespace kvik::onnx
