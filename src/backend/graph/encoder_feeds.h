#pragma once

#include "analysis/signature.h"
#include "backend/graph/executor.h"

namespace kvik::backend {

// Every input that an encoder declares, for sources of one shape as one batch: token ids [E] (i64) or features (f32), one tensor each.
// Throws Error for an input whose role is unknown, or where ids are given to an encoder of features.
std::vector<NamedValue> encoder_feeds(const analysis::File& file, std::span<const Tensor> inputs, Executor& executor);

}  // namespace kvik::backend
