#pragma once

#include "backend/native/graph/program.h"
#include "backend/native/probe/compile_state.h"

namespace kvik::native {

// Turns an auxiliary value with one sequence axis (new, or total on the key side; none in a program for one token at a time), as fitted to
// its operand, into a table, and tries to refute that it depends only on the position, at every probe size and for every batch entry. May
// refuse.
Expected<PositionTable> make_table(CompileState& state, onnx::ValueId value, const Axes& axes);

}  // namespace kvik::native
