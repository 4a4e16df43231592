#pragma once

#include <functional>

#include "onnx/eval/ops/common.h"

namespace kvik::onnx {

using Activation = std::function<double(double)>;

// The activation functions of a recurrent node, `defaults` once per direction if it has none.
std::vector<Activation> activations_of(const Node& node, const std::vector<std::string_view>& defaults, size_t n_directions);

}  // namespace kvik::onnx
