#pragma once

#include <optional>
#include <span>

#include "backend/native/graph/axes.h"

namespace kvik::native {

// The axes of a value after a reshape to `targets`, one shape for each of `sizes`: factors are dealt out to the new axes in order. An
// integer may be cut in two, a symbol never. Nothing where that cannot be done.
std::optional<Axes> regroup(const Axes& axes, std::span<const Dims> targets, std::span<const Sizes> sizes);

}  // namespace kvik::native
