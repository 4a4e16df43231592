#include "onnx/eval/ops/matmul.h"

#include <algorithm>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/dispatch.h"
#include "onnx/eval/ops/elements.h"

namespace kvik::onnx {
namespace {

struct MatMulShape {
  Dims a;  // at least two axes
  Dims b;
  Dims batch;   // broadcast
  Dims result;  // as in NumPy
  int64_t m, k, n;
};

MatMulShape shape_of(const Tensor& a, const Tensor& b) {
  require(a.rank() > 0 && b.rank() > 0, "shapes {} and {} cannot be multiplied", to_string(a.dims()), to_string(b.dims()));
  MatMulShape shape = {a.dims(), b.dims(), {}, {}, 0, 0, 0};
  if (a.rank() == 1) shape.a.insert(shape.a.begin(), 1);
  if (b.rank() == 1) shape.b.push_back(1);
  shape.m = shape.a.end()[-2];
  shape.k = shape.a.end()[-1];
  shape.n = shape.b.end()[-1];
  require(shape.b.end()[-2] == shape.k, "shapes {} and {} cannot be multiplied", to_string(a.dims()), to_string(b.dims()));
  shape.batch = broadcast({shape.a.begin(), shape.a.end() - 2}, {shape.b.begin(), shape.b.end() - 2});
  shape.result = shape.batch;
  if (a.rank() > 1) shape.result.push_back(shape.m);
  if (b.rank() > 1) shape.result.push_back(shape.n);
  return shape;
}

// Strides, in matrices, of the batch axes.
Dims batch_strides(const Dims& dims, const Dims& batch) { return broadcast_strides({dims.begin(), dims.end() - 2}, batch); }

template <class T>
Tensor matmul_of(const Tensor& a, const Tensor& b, const MatMulShape& shape) {
  Tensor result = new_tensor(kDTypeOf<T>, shape.result);
  if (result.size() == 0) return result;
  T* to = result.mutable_data<T>().data();
  std::vector<Accumulator<T>> row(static_cast<size_t>(shape.n));
  for (Walk<2> walk(shape.batch, {batch_strides(shape.a, shape.batch), batch_strides(shape.b, shape.batch)}); walk.more(); walk.next()) {
    const Matrix<T> left = {a.data<T>().data() + walk.offset(0) * shape.m * shape.k, shape.k, 1};
    const Matrix<T> right = {b.data<T>().data() + walk.offset(1) * shape.k * shape.n, shape.n, 1};
    for (int64_t i = 0; i < shape.m; ++i) {
      multiply_row(left, i, right, shape.k, row);
      for (const Accumulator<T> x : row) *to++ = static_cast<T>(x);
    }
  }
  return result;
}

// As NumPy's matmul: batches broadcast, a vector is a row on the left and a column on the right.
Tensors matmul(const KernelCall& call) {
  const Tensor& a = call.input(0);
  const Tensor& b = call.input(1);
  require_same_dtype(a, b);
  const MatMulShape shape = shape_of(a, b);
  call.work.take(shape.result, {std::max<int64_t>(1, shape.k)});
  return {visit_numeric(a.dtype(), [&]<class T>(Type<T>) { return matmul_of<T>(a, b, shape); })};
}

template <class T>
Matrix<T> matrix_of(const Tensor& x, bool transposed) {
  return {x.data<T>().data(), transposed ? 1 : x.dim(1), transposed ? x.dim(1) : 1};
}

template <class T>
T scaled(Accumulator<T> x, double alpha, T bias, double beta) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(alpha * x + (beta == 0 ? 0.0 : beta * static_cast<double>(bias)));
  } else {
    if (alpha == 1 && beta == 1) return static_cast<T>(x + static_cast<uint64_t>(bias));
    const double sum = alpha * static_cast<double>(static_cast<T>(x)) + beta * static_cast<double>(bias);
    return cast(Tensor::scalar(sum), kDTypeOf<T>).template data<T>()[0];
  }
}

Tensors gemm(const KernelCall& call) {
  const Tensor& a = call.input(0);
  const Tensor& b = call.input(1);
  require_rank(a, 2, "A");
  require_rank(b, 2, "B");
  require_same_dtype(a, b);
  const bool flip_a = call.node.int_or("transA", 0) != 0;
  const bool flip_b = call.node.int_or("transB", 0) != 0;
  const double alpha = call.node.float_or("alpha", 1.0f);
  const double beta = call.node.float_or("beta", 1.0f);
  const int64_t depth = a.dim(flip_a ? 0 : 1);
  require(depth == b.dim(flip_b ? 1 : 0), "shapes {} and {} (transA {}, transB {}) cannot be multiplied", to_string(a.dims()),
          to_string(b.dims()), flip_a, flip_b);
  const Dims dims = {a.dim(flip_a ? 1 : 0), b.dim(flip_b ? 0 : 1)};
  call.work.take(dims, {std::max<int64_t>(1, depth)});
  Tensor result = new_tensor(a.dtype(), dims);
  if (result.size() == 0) return {result};
  const Tensor c = call.has(2) ? broadcast_to(call.input(2), dims) : Tensor(a.dtype(), dims);
  visit_numeric(a.dtype(), [&]<class T>(Type<T>) {
    std::vector<Accumulator<T>> row(static_cast<size_t>(dims[1]));
    size_t to = 0;
    for (int64_t i = 0; i < dims[0]; ++i) {
      multiply_row(matrix_of<T>(a, flip_a), i, matrix_of<T>(b, flip_b), depth, row);
      for (const Accumulator<T> x : row) {
        const T bias = c.data<T>()[to];
        result.mutable_data<T>()[to++] = scaled<T>(x, alpha, bias, beta);
      }
    }
  });
  return {result};
}

}  // namespace

void add_matmul(KernelTable& table) {
  table.add("Gemm", in_f32<gemm>);
  table.add("MatMul", in_f32<matmul>);
}

}  // namespace kvik::onnx
