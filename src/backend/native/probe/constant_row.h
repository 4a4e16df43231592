#pragma once

#include <optional>

#include "backend/native/probe/compile_state.h"

namespace kvik::native {

// The row of an auxiliary value that has no axis of positions, if it is the same for every batch entry and at every size, the longest
// context included; nullopt if it varies. A value that was not fitted (its axes are not `axes`) is used as a whole. May refuse.
Expected<std::optional<Tensor>> constant_row(CompileState& state, onnx::ValueId value, const Axes& axes);

}  // namespace kvik::native
