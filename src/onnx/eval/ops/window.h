#pragma once

#include <functional>

#include "onnx/eval/ops/common.h"

// The sliding window of convolutions and pooling over the spatial axes, those after batch and channels.
namespace kvik::onnx {

struct Window {
  Dims input;  // spatial
  Dims kernel;
  Dims strides;
  Dims dilations;
  Dims pads_begin;
  Dims pads_end;
  Dims output;

  size_t rank() const { return kernel.size(); }
  int64_t n_taps() const { return element_count(kernel); }

  // For each tap of the kernel, in row-major order: the spatial offset in the input, or -1 in the padding.
  void taps(const Dims& at, std::vector<int64_t>& offsets) const;
};

// From the node's attributes (strides, dilations, pads, auto_pad, ceil_mode); refuses invalid ones.
Window window_of(const Node& node, const Dims& input, const Dims& kernel);

// Every index of `dims`, in row-major order.
void for_each_index(const Dims& dims, const std::function<void(const Dims&)>& f);

// The spatial part of a shape [batch, channels, …].
Dims spatial(const Tensor& x);

}  // namespace kvik::onnx
