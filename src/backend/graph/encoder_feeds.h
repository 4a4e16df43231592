#pragma once

#include "analysis/signature.h"
#include "backend/graph/executor.h"

namespace kvik::backend {

// All declared inputs of an encoder for a batch of sources of one shape: token ids [E] (i64) or features (f32), one tensor each. Throws
// Error for an input whose role is unknown, and for ids if the encoder reads features.
std::vector<NamedValue> encoder_feeds(const analysis::File& file, std::span<const Tensor> inputs, Executor& executor);

}  // namespace kvik::backend
