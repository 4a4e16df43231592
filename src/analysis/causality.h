#pragma once

#include "analysis/flow.h"
#include "analysis/signature.h"

namespace kvik::analysis {

// Whether a value is a Range, a cumulative sum, or computed from one.
bool counts_positions(const Flow& flow, FlowValue value);

// Whether earlier tokens cannot see later ones, which distinguishes a decoder without a cache from an encoder. `inputs`: those of the
// flow, with their roles.
bool looks_causal(const Flow& flow, const std::vector<Port>& inputs);

}  // namespace kvik::analysis
