#pragma once

#include "onnx/messages.h"

namespace kvik::onnx {

// Links a parsed model: resolves names to ids, inlines model-local functions and sorts nodes topologically.
// Throws Error(kBadModel) for names that are undefined or defined twice, cycles, recursive functions, and functions that expand to too
// many nodes.
Model build_model(const ModelMessage& message);

}  // namespace kvik::onnx
