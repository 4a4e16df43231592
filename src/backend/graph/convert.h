#pragma once

#include "tensor/tensor.h"

namespace kvik::backend {

// Converts the elements; returns the tensor itself if it has that type already.
Tensor cast_float(const Tensor& tensor, DType dtype);    // f32, f16, bf16, f64
Tensor cast_integer(const Tensor& tensor, DType dtype);  // i64, i32

// Elements [from, from + target.size()) of a float tensor, as f32.
void copy_floats(const Tensor& tensor, int64_t from, std::span<float> target);

}  // namespace kvik::backend
