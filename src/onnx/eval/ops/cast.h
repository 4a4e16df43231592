#pragma once

#include <string_view>

#include "tensor/tensor.h"

namespace kvik::onnx {

struct CastOptions {
  bool saturate = true;                // into 8-bit floats: beyond the largest number comes that number, not NaN or infinity
  std::string_view round_mode = "up";  // into f8e8m0: "up", "down" or "nearest"
};

// Any dtype to any other, complex numbers aside. Floats become integers by cutting off; what no integer of the target holds
// is clamped to 32 or 64 bits first and then wraps, as the processors do that models were made on; NaN becomes 0.
Tensor cast(const Tensor& tensor, DType to, const CastOptions& options = {});

}  // namespace kvik::onnx
