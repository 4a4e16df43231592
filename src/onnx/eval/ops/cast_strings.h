#pragma once

#include "tensor/tensor.h"

namespace kvik::onnx {

// Numbers as the shortest text that reads back as the same number; "NaN", "INF" and "-INF".
Tensor to_strings(const Tensor& tensor);

// The texts as i64 where `whole`, as f64 otherwise. A text that is no number is refused.
Tensor parse_numbers(const Tensor& strings, bool whole);

}  // namespace kvik::onnx
