#pragma once

#include "onnx/eval/ops/broadcast.h"
#include "onnx/eval/ops/common.h"

// Checked indices for the gather and scatter operators.
namespace kvik::onnx {

// The elements as indices into an axis of size n; negative ones count from the end. Refuses others.
std::vector<int64_t> indices_into(const Tensor& indices, int64_t n);

// Refuses `part` if it has another rank than `whole` or exceeds it on an axis other than `axis`.
void require_inside(const Dims& part, const Dims& whole, int axis);

// Iterates over `dims`; offset() is that of the index in a dense tensor of shape `data`, with its part on the axis replaced.
class AlongAxis {
 public:
  AlongAxis(const Dims& dims, const Dims& data, int axis)
      : walk_(dims, {without(strides_of(data), axis)}), stride_(strides_of(data)[static_cast<size_t>(axis)]) {}
  bool more() const { return walk_.more(); }
  void next() { walk_.next(); }
  int64_t offset(int64_t on_axis) const { return walk_.offset(0) + on_axis * stride_; }

 private:
  static Dims without(Dims strides, int axis) {
    strides[static_cast<size_t>(axis)] = 0;
    return strides;
  }

  Walk<1> walk_;
  int64_t stride_;
};

// The last axis of an index tensor as index tuples into `dims` without its first `skipped` axes; each selects an element or a slice.
class Tuples {
 public:
  Tuples(const Tensor& indices, const Dims& dims, int skipped);
  int width() const { return width_; }  // axes per tuple
  int64_t count() const { return static_cast<int64_t>(offsets_.size()); }
  int64_t offset(int64_t i) const { return offsets_[static_cast<size_t>(i)]; }  // in elements, inside one batch
  int64_t run() const { return run_; }                                          // elements per slice

 private:
  int width_;
  int64_t run_;
  std::vector<int64_t> offsets_;
};

}  // namespace kvik::onnx
