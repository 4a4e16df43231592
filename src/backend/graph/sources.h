#pragma once

#include "backend/graph/batch_tensor.h"
#include "backend/graph/graph_cache.h"
#include "backend/graph/slots.h"

namespace kvik::backend {

// Joins the sources of a batch, zero-padded to the longest, as values of `executor`.
std::shared_ptr<SourcePack> pack_sources(const std::vector<SourcePtr>& members, const Slots& slots, Executor& executor);

// The mask of valid source positions, of the encoder's output or of its input: [B, E] in the port's type.
Tensor source_mask(const analysis::Port& port, const SourcePack& pack, bool of_what_was_read);

// Call after the first step: stores the cross-attention keys and values in every source of the pack.
void remember_cross(const SourcePack& pack);

}  // namespace kvik::backend
