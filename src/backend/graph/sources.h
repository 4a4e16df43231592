#pragma once

#include "backend/graph/batch_tensor.h"
#include "backend/graph/graph_cache.h"
#include "backend/graph/slots.h"

namespace kvik::backend {

// Puts the sources of a batch side by side, padded with zeros to the longest. `executor` gets the joined values.
std::shared_ptr<SourcePack> pack_sources(const std::vector<SourcePtr>& members, const Slots& slots, Executor& executor);

// Which positions of a pack are real, as the encoder gave them or as it read them: [B, E] in the port's type.
Tensor source_mask(const analysis::Port& port, const SourcePack& pack, bool of_what_was_read);

// After the first step: every source of the pack remembers where its cross-attention keys and values are.
void remember_cross(const SourcePack& pack);

}  // namespace kvik::backend
