#pragma once

#include "analysis/signature.h"

namespace kvik::analysis {

// The output with the hidden states that embeddings are made from. A file that gives those of every layer names the last ones, or has them
// behind the others. Null if there is none.
const Port* hidden_output(const File& file);

}  // namespace kvik::analysis
