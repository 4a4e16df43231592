#pragma once

#include <string>
#include <vector>

#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"

namespace kvik::onnx::testing_support {

// The numbers in any type, including strings.
inline Tensor converted(const Tensor& numbers, DType dtype) {
  if (dtype != DType::kString) return cast(numbers, dtype);
  std::vector<std::string> strings;
  for (const double value : as_doubles(numbers)) strings.push_back(std::to_string(value));
  return Tensor::of(numbers.dims(), strings);
}

}  // namespace kvik::onnx::testing_support
