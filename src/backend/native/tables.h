#pragma once

#include "backend/native/attention.h"

namespace kvik::native {

// Makes a table of an auxiliary value with one sequence axis (new, or total on the key side), as fitted to the operand it meets, and
// tries to refute that it is a function of the position alone, at every probe size and for every batch entry. Throws Refusal.
// The table refers to the labels' graph and evaluates it when rows are asked for.
PositionTable make_table(const AttentionContext& context, onnx::ValueId value, const Axes& axes);

}  // namespace kvik::native
