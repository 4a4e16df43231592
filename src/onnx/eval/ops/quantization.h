#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace kvik::onnx {

// An f32 tensor quantized to u8 by its own range, as by DynamicQuantizeLinear.
struct DynamicQuantized {
  std::vector<double> centered;  // code - zero_point
  float scale = 1;
  double zero_point = 0;
};
DynamicQuantized quantize_dynamically(const Tensor& x);

}  // namespace kvik::onnx
