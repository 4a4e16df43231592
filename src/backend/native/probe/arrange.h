#pragma once

#include <span>
#include <vector>

#include "backend/native/graph/axes.h"
#include "backend/native/graph/refusal.h"
#include "tensor/tensor.h"

// Values in a canonical order of axes: independent of the graph, symbols come first and the elements of a row (its integer factors, in
// order) last.
namespace kvik::native {

// [front…, elements of a row]. A symbol that the value does not have counts as one. Refuses if the tensor's shape does not match the axes.
Expected<std::vector<float>> arrange(const Tensor& tensor, const Axes& axes, const Sizes& sizes, std::span<const Symbol> front);

// The inverse: a tensor with those axes from [front…] numbers, or [front…, elements of a row].
Tensor spread(std::span<const float> numbers, const Axes& axes, const Sizes& sizes, std::span<const Symbol> front);

int64_t row_elements(const Axes& axes);  // of one row

// Converts any number type to f32.
Tensor to_floats(const Tensor& tensor);

}  // namespace kvik::native
