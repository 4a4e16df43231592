#pragma once

#include <string>

#include "tensor/dtype.h"

// ONNX models of one or two nodes that Kvik writes itself, to have the runtime work on values where they lie.
namespace kvik::backend::ort {

inline constexpr const char* kSmallInput = "x";
inline constexpr const char* kSmallOutput = "y";
inline constexpr const char* kSmallEntries = "entries";      // int64 [n]
inline constexpr const char* kSmallPositions = "positions";  // int64 [1]

// y = x: what it is asked for on the host is copied there.
std::string copy_graph(DType dtype);

// y = the `entries` of x along `axis`, cut to the first `positions` along `position_axis` (-1: not cut, and no such input).
std::string select_graph(DType dtype, int axis, int position_axis);

}  // namespace kvik::backend::ort
