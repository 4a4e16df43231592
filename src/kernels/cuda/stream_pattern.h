#pragma once

#include <optional>
#include <span>

#include "kernels/device/device.h"

namespace kvik::cuda {

// Steps around a product that its launch can do. Which memory they use allows blocks to be at different steps.
struct StreamPattern {
  const device::Norm* norm = nullptr;
  const device::ToHalf* half = nullptr;
  const device::Matrix* matrix = nullptr;
  const device::Elementwise* after = nullptr;
  bool pairs = false;   // `after` joins the two halves of the product's columns
  int own_operand = 0;  // of `after`: which is the product, or its first half
  size_t n_steps() const { return 1u + (norm != nullptr) + (half != nullptr) + (after != nullptr); }
  // The value that the pattern leaves, and how many elements it has.
  const device::View& result() const { return after != nullptr ? after->out : matrix->out; }
  int64_t result_size() const { return after != nullptr ? after->n : int64_t{matrix->parts} * matrix->weights.n; }
};

bool has_two_operands(const device::Elementwise& step);

// What begins at `at`: the longest such pattern, or none. Without `fuses`: a product alone.
std::optional<StreamPattern> find_stream_pattern(std::span<const device::Step> steps, size_t at, bool fuses);

}  // namespace kvik::cuda
