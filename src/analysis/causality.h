#pragma once

#include "analysis/flow.h"
#include "analysis/signature.h"

namespace kvik::analysis {

// Whether a value is Range(...), a cumulative sum, or made of one.
bool counts_positions(const Flow& flow, FlowValue value);

// A later token is hidden from an earlier one: what a decoder without a cache shows and an encoder does not.
// `inputs`: of the flow, with their roles.
bool looks_causal(const Flow& flow, const std::vector<Port>& inputs);

}  // namespace kvik::analysis
