#pragma once

#include "analysis/signature.h"

namespace kvik::analysis {

// Whether a graph only counts the ones in a source mask. The decoder of an encoder that shortens its source computes the number of
// remaining positions itself, so its mask has the length of the encoder's input, not of its output.
bool only_counts(const File& file, const Port& mask);

}  // namespace kvik::analysis
