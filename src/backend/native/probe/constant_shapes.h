#pragma once

#include "backend/native/probe/probe.h"

namespace kvik::native {

struct ConstantShape {
  DType dtype = DType::kUndefined;
  Dims dims;
};

// Type and shape of each output of a node whose inputs are constants. Small results are evaluated; a transposed, cast or dequantized weight
// is not, because its shape follows from the operator. May refuse.
Expected<std::vector<ConstantShape>> constant_shapes(const Labels& labels, Constants& constants, const onnx::Node& node);

}  // namespace kvik::native
