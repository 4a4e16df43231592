#pragma once

#include <string>
#include <string_view>

#include "tensor/tensor.h"

// A TensorProto message with this name and these elements.
std::string serialized(const kvik::Tensor& tensor, std::string_view name);
