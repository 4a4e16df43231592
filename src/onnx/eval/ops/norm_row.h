#pragma once

#include <span>

namespace kvik::onnx {

struct RowStatistics {
  double mean = 0, inverse_deviation = 0;
};

// Divides by the root of the mean square (plus epsilon), in place; gives the factor.
double normalize_rms(std::span<double> row, double epsilon);
// To mean zero and variance one, in place.
RowStatistics normalize_layer(std::span<double> row, double epsilon);

}  // namespace kvik::onnx
