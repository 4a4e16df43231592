#pragma once

#include <array>

#include "onnx/eval/ops/common.h"

namespace kvik::onnx {

// The shape that both broadcast to, as in NumPy; refuses others.
Dims broadcast(const Dims& a, const Dims& b);

// Strides, per axis of `to`, of a dense tensor of shape `from` broadcast to `to`: 0 for a broadcast axis.
// Refuses if `from` does not broadcast to `to`.
Dims broadcast_strides(const Dims& from, const Dims& to);

// Expands the tensor to a shape that it broadcasts to.
Tensor broadcast_to(const Tensor& tensor, const Dims& dims);

// Every index of `dims` in row-major order, with the element offset in each of kN operands.
// for (Walk<2> walk(dims, {a_strides, b_strides}); walk.more(); walk.next()) … walk.offset(0) …
template <size_t kN>
class Walk {
 public:
  Walk(const Dims& dims, std::array<Dims, kN> strides) : dims_(dims), strides_(std::move(strides)), index_(dims.size(), 0) {
    left_ = element_count(dims_);
  }
  bool more() const { return left_ > 0; }
  int64_t offset(size_t operand) const { return offsets_[operand]; }
  const Dims& index() const { return index_; }

  void next() {
    if (--left_ == 0) return;
    for (size_t axis = dims_.size(); axis-- > 0;) {
      if (++index_[axis] < dims_[axis]) {
        for (size_t i = 0; i < kN; ++i) offsets_[i] += strides_[i][axis];
        return;
      }
      index_[axis] = 0;
      for (size_t i = 0; i < kN; ++i) offsets_[i] -= strides_[i][axis] * (dims_[axis] - 1);
    }
  }

 private:
  Dims dims_;
  std::array<Dims, kN> strides_;
  Dims index_;
  std::array<int64_t, kN> offsets_ = {};
  int64_t left_ = 0;
};

}  // namespace kvik::onnx
