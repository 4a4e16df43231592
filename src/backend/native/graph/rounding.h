#pragma once

#include <optional>

#include "kernels/ops.h"
#include "tensor/tensor.h"

namespace kvik::native {

// The parameters of a QuantizeLinear or DequantizeLinear with one scale for all elements: the type of the codes, and the code `zero_point`
// that stands for 0.
struct CodeGrid {
  float scale = 1.0f;
  float zero_point = 0.0f;
  DType codes = DType::kU8;
};

// Without a zero point codes are of type `otherwise`. Nullopt if the scale is not one normal number, or if codes do not have 8 or 16 bits.
std::optional<CodeGrid> code_grid(const Tensor& scale, const Tensor* zero_point, DType otherwise);

// Quantizes by `to` and dequantizes by `from`. Nullopt if their zero points or types differ.
std::optional<Rounding> rounding_of(const CodeGrid& to, const CodeGrid& from);

}  // namespace kvik::native
