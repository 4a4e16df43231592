#pragma once

#include "onnx/messages.h"

namespace kvik::onnx {

// Links a parsed model: names become numbers, calls of model-local functions become their bodies, nodes are put in order.
// Throws Error(kBadModel) for names that nothing or two things define, cycles, functions that call themselves, and
// graphs that expand beyond a few million nodes.
Model build_model(const ModelMessage& message);

}  // namespace kvik::onnx
