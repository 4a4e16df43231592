#include <algorithm>
#include <fmt/format.h>

#include "backend/native/attention/key_value_layout.h"
#include "backend/native/probe/arrange.h"

namespace kvik::native {
namespace {

using onnx::Node;

struct Flags {
  bool transpose_a = false, transpose_b = false;
  float scale = 1;
};

Expected<Flags> flags_of(const Node& node) {
  if (node.op == "MatMul" && node.domain.empty()) return Flags{};
  const bool gemm = node.op == "Gemm" && node.domain.empty();
  if (!gemm && (node.op != "FusedMatMul" || node.int_or("transBatchA", 0) != 0 || node.int_or("transBatchB", 0) != 0)) {
    return refuse(node, "this kind of product is not supported between queries, keys and values");
  }
  if (gemm && node.inputs.size() > 2 && node.inputs[2] != onnx::kNoValue) return refuse(node, "it adds something to a product of rows");
  return Flags{node.int_or("transA", 0) != 0, node.int_or("transB", 0) != 0, node.float_or("alpha", 1)};
}

// A matrix operand as [batch…, rows, columns] with the strides of its elements.
struct Matrix {
  Dims dims, strides;
};

Matrix matrix_of(const Dims& dims, bool left, bool transposed) {
  Matrix operand = {dims, strides_of(dims)};
  if (dims.size() == 1) {
    operand.dims.insert(left ? operand.dims.begin() : operand.dims.end(), 1);
    operand.strides.insert(left ? operand.strides.begin() : operand.strides.end(), 0);
  }
  if (transposed) {
    std::swap(operand.dims.end()[-1], operand.dims.end()[-2]);
    std::swap(operand.strides.end()[-1], operand.strides.end()[-2]);
  }
  return operand;
}

// Strides over the batch axes of the result, 0 where the operand is broadcast.
Dims batch_strides(const Matrix& operand, const Dims& batch) {
  Dims strides(batch.size(), 0);
  const size_t own = operand.dims.size() - 2;
  for (size_t i = 0; i < own && i < batch.size(); ++i) {
    const bool broadcast = operand.dims[own - 1 - i] == 1;
    strides[batch.size() - 1 - i] = broadcast ? 0 : operand.strides[own - 1 - i];
  }
  return strides;
}

Expected<Dims> batch_of(const Node& node, const Matrix& a, const Matrix& b) {
  Dims batch(std::max(a.dims.size(), b.dims.size()) - 2, 1);
  for (const Matrix* operand : {&a, &b}) {
    const size_t own = operand->dims.size() - 2;
    for (size_t i = 0; i < own; ++i) {
      int64_t& size = batch[batch.size() - 1 - i];
      const int64_t dim = operand->dims[own - 1 - i];
      if (size != 1 && dim != 1 && size != dim) return refuse(node, "its operands do not match");
      size = std::max(size, dim);
    }
  }
  return batch;
}

}  // namespace

Expected<ProductMap> product_map(const Node& node, const Dims& a_dims, const Dims& b_dims) {
  KVIK_TRY(const Flags flags, flags_of(node));
  if (a_dims.empty() || b_dims.empty()) return refuse(node, "a product of scalars is not a product of rows");
  const Matrix a = matrix_of(a_dims, true, flags.transpose_a), b = matrix_of(b_dims, false, flags.transpose_b);
  const int64_t n_inner = a.dims.back(), n_rows = a.dims.end()[-2], n_columns = b.dims.back();
  if (b.dims.end()[-2] != n_inner) return refuse(node, "its operands do not match");
  KVIK_TRY(const Dims batch, batch_of(node, a, b));
  const Dims a_batch = batch_strides(a, batch), b_batch = batch_strides(b, batch);
  const int64_t n_batch = element_count(batch);
  if (static_cast<double>(n_batch) * static_cast<double>(n_rows * n_columns) * static_cast<double>(n_inner) > 1 << 26) {
    return refuse(node, "its rows are too large");
  }

  ProductMap map;
  map.n_results = n_batch * n_rows * n_columns;
  map.n_inner = n_inner;
  map.scale = flags.scale;
  const Dims counting = strides_of(batch);
  for (int64_t i = 0; i < n_batch; ++i) {
    int64_t a_at = 0, b_at = 0;
    for (size_t axis = 0; axis < batch.size(); ++axis) {
      const int64_t index = i / counting[axis] % batch[axis];
      a_at += index * a_batch[axis];
      b_at += index * b_batch[axis];
    }
    for (int64_t r = 0; r < n_rows; ++r) {
      for (int64_t c = 0; c < n_columns; ++c) {
        for (int64_t j = 0; j < n_inner; ++j) {
          map.a.push_back(static_cast<int32_t>(a_at + r * a.strides.end()[-2] + j * a.strides.back()));
          map.b.push_back(static_cast<int32_t>(b_at + j * b.strides.end()[-2] + c * b.strides.back()));
        }
      }
    }
  }
  return map;
}

Expected<Axes> product_axes(const Node& node, Axes a, Axes b) {
  KVIK_TRY(const Flags flags, flags_of(node));
  if (a.size() < 2 || b.size() < 2) return refuse(node, "a matrix was expected on both sides");
  if (flags.transpose_a) std::swap(a.end()[-1], a.end()[-2]);
  if (flags.transpose_b) std::swap(b.end()[-1], b.end()[-2]);
  Axes result(std::max(a.size(), b.size()) - 2);
  for (const Axes* axes : {&a, &b}) {
    for (size_t i = 0; i + 2 < axes->size(); ++i) {
      const Axis& axis = (*axes)[axes->size() - 3 - i];
      if (!axis.empty()) result[result.size() - 1 - i] = axis;
    }
  }
  result.push_back(a.end()[-2]);
  result.push_back(b.back());
  return result;
}

}  // namespace kvik::native
