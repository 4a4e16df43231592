#pragma once

#include <optional>
#include <span>

#include "backend/native/graph/axes.h"

namespace kvik::native {

// The axes of a value after a reshape to `targets`, one shape for each of `sizes`: factors are assigned to the new axes in order. An
// integer may be split, but not a symbol. Nullopt if that is not possible.
std::optional<Axes> regroup(const Axes& axes, std::span<const Dims> targets, std::span<const Sizes> sizes);

}  // namespace kvik::native
