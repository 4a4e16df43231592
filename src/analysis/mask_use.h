#pragma once

#include "analysis/signature.h"

namespace kvik::analysis {

// Whether a graph looks only at how many places a mask of the source lets through. A decoder whose encoder shortens its source works out by
// itself how many positions are left of so many, so its mask is as long as what the encoder read and not as what it gave.
bool only_counts(const File& file, const Port& mask);

}  // namespace kvik::analysis
