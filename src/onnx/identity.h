#pragma once

#include <string>

#include "onnx/graph.h"

namespace kvik::onnx {

// A hash that identifies a model, in hexadecimal digits: of its nodes, attributes and weights, independent of names and of where the
// weights are stored. Large tensors are sampled evenly, so that it takes milliseconds.
std::string identity_of(const Model& model);

}  // namespace kvik::onnx
