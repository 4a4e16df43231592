#pragma once

#include "backend/native/graph/labels.h"
#include "backend/native/graph/outcome.h"

namespace kvik::native {

// The meaning of an input of the graph for a row: tokens, the past and the source are rows, everything else (masks, positions, lengths) is
// auxiliary. Hints override the file. Refuses an input that cannot be derived from rows.
Expected<Label> input_label(const Labels& labels, const FlatGraph::Input& input, const Hints& hints);

}  // namespace kvik::native
