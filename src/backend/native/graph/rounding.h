#pragma once

#include <optional>

#include "kernels/ops.h"
#include "tensor/tensor.h"

namespace kvik::native {

// What a QuantizeLinear or DequantizeLinear says of its codes, one scale for all elements: codes of this type, of which `zero_point` is 0.
struct CodeGrid {
  float scale = 1.0f;
  float zero_point = 0.0f;
  DType codes = DType::kU8;
};

// Without a zero point codes are of type `otherwise`. Nothing if the scale is not one normal number, or codes are not of 8 or 16 bits.
std::optional<CodeGrid> code_grid(const Tensor& scale, const Tensor* zero_point, DType otherwise);

// To codes of `to` and back by `from`. Nothing if the zero point moves between them, or the codes are of different types.
std::optional<Rounding> rounding_of(const CodeGrid& to, const CodeGrid& from);

}  // namespace kvik::native
