#pragma once

#include <span>
#include <vector>

#include "onnx/eval/kernel.h"

namespace kvik::onnx {

// The products of a NumPy matmul: a batch of [m, k] x [k, n] with broadcast batch axes.
struct MatMulPlan {
  Dims output;  // without the axes added to one-dimensional operands
  int64_t m = 1, k = 1, n = 1;
  std::vector<int64_t> a_matrix, b_matrix;  // per product: index of the matrix in a and b
};

// Takes the work of the products. Throws Error(kBadModel) for shapes that cannot be multiplied.
MatMulPlan plan_matmul(Dims a, Dims b, const Work& work);

// The products, as row-major matrices.
std::vector<double> multiply(const MatMulPlan& plan, std::span<const double> a, std::span<const double> b);

// A transposed tensor: axis i of the result is axis order[i] of the argument.
std::vector<double> permuted(std::span<const double> values, const Dims& dims, std::span<const int> order);

// y[r, c] = sum over i of x[r, i] * w[c, i] (+ bias[c] if given); x is [rows, inner], w is [columns, inner].
std::vector<double> multiply_transposed(std::span<const double> x, std::span<const double> w, std::span<const double> bias, int64_t inner);

}  // namespace kvik::onnx
