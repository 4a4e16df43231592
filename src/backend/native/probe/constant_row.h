#pragma once

#include <optional>
#include <vector>

#include "backend/native/attention/attention.h"

namespace kvik::native {

// Sizes as long as a context gets: what begins beyond some length looks like nothing in short probes.
std::vector<Sizes> long_sizes(const AttentionContext& context);

// The row of an auxiliary value that has no axis of positions, where it is the same for every batch entry and at every size, the longest
// context included; nothing where it varies. A value that was not fitted (its axes are not `axes`) is taken whole.
std::optional<Tensor> the_same_row(const AttentionContext& context, onnx::ValueId value, const Axes& axes);

}  // namespace kvik::native
