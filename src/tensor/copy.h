#pragma once

#include <cstddef>
#include <span>

#include "tensor/shape.h"

namespace kvik {

// Copies a box of `extents` elements between two strided arrays; strides are in elements.
struct BoxCopy {
  Dims extents;
  Dims source_strides;
  Dims target_strides;
  size_t element_bytes = 1;
};
void copy_box(const BoxCopy& box, const std::byte* source, std::byte* target);

}  // namespace kvik
