#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvik {

using Dims = std::vector<int64_t>;

// Number of elements; nothing if a dimension is negative or the product (ignoring zeros) exceeds 2^56, so that the size in bytes of
// any dtype fits into 64 bits.
std::optional<int64_t> checked_elements(std::span<const int64_t> dims);

// The same for valid dims; throws Error(kTooLarge) for others.
int64_t element_count(std::span<const int64_t> dims);

// Row-major strides in elements.
Dims strides_of(std::span<const int64_t> dims);

// "[2, 3, 4]", "[]" for a scalar.
std::string to_string(std::span<const int64_t> dims);

}  // namespace kvik
