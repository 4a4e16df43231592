#pragma once

#include <string>

#include "onnx/graph.h"

namespace kvik::onnx {

// A number that tells this model from others, in hexadecimal digits: of its nodes, their attributes and its weights, wherever they are
// stored and whatever their names. Of a large tensor evenly spread parts are read, so that it takes milliseconds.
std::string identity_of(const Model& model);

}  // namespace kvik::onnx
