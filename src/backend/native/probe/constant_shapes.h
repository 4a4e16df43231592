#pragma once

#include "backend/native/probe/probe.h"

namespace kvik::native {

struct ConstantShape {
  DType dtype = DType::kUndefined;
  Dims dims;
};

// Type and shape of what a node of constants gives, one for each output. Small results are evaluated; a transposed, cast or dequantized
// weight is not: its shape follows from its making. May refuse.
Expected<std::vector<ConstantShape>> constant_shapes(const Labels& labels, Constants& constants, const onnx::Node& node);

}  // namespace kvik::native
