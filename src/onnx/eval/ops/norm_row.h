#pragma once

#include <span>

namespace kvik::onnx {

struct RowStatistics {
  double mean = 0, inverse_deviation = 0;
};

// RMS normalization in place; returns the factor.
double normalize_rms(std::span<double> row, double epsilon);
// Normalizes to mean 0 and variance 1 in place.
RowStatistics normalize_layer(std::span<double> row, double epsilon);

}  // namespace kvik::onnx
