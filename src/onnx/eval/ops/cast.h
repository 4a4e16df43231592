#pragma once

#include <string_view>

#include "tensor/tensor.h"

namespace kvik::onnx {

struct CastOptions {
  bool saturate = true;                // to 8-bit floats: overflow gives the largest number, not NaN or infinity
  std::string_view round_mode = "up";  // to f8e8m0: "up", "down" or "nearest"
};

// From any number type to any other; not for complex numbers and strings. Floats are truncated to integers; values out of range are
// clamped to 32 or 64 bits first and then wrap, as on x86; NaN becomes 0.
Tensor cast(const Tensor& tensor, DType to, const CastOptions& options = {});

}  // namespace kvik::onnx
