#pragma once

#include <span>

#include "onnx/eval/ops/common.h"

namespace kvik::onnx {

// Rotates the pairs among the first 2 * cosines.size() elements: (x, y) becomes (c x - s y, s x + c y). If interleaved, a pair is two
// adjacent elements; otherwise element i of the first half and element i of the second. Other elements do not change.
void rotate(std::span<double> vector, std::span<const double> cosines, std::span<const double> sines, bool interleaved);

// Angles by position, from two tensors of shape [positions, pairs].
class RotaryTable {
 public:
  RotaryTable(const Tensor& cosines, const Tensor& sines);
  int64_t pairs() const { return pairs_; }
  int64_t positions() const { return positions_; }
  // Refuses a position that is not in the table, and a vector with fewer than 2 * pairs() elements.
  void rotate(std::span<double> vector, int64_t position, bool interleaved) const;
  std::span<const double> cosines(int64_t position) const { return row(cosines_, position); }
  std::span<const double> sines(int64_t position) const { return row(sines_, position); }

 private:
  std::span<const double> row(const std::vector<double>& table, int64_t position) const;

  std::vector<double> cosines_, sines_;
  int64_t positions_ = 0, pairs_ = 0;
};

}  // namespace kvik::onnx
