#pragma once

#include "backend/native/graph/labels.h"
#include "backend/native/graph/outcome.h"

namespace kvik::native {

// What an input of the graph is to a row: tokens, the past and the source are rows, everything else (masks, positions, lengths) is
// auxiliary. Hints know better than the file what some inputs hold. Refuses an input that rows cannot give.
Expected<Label> input_label(const Labels& labels, const FlatGraph::Input& input, const Hints& hints);

}  // namespace kvik::native
