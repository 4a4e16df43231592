#pragma once

#include <map>

#include "backend/native/graph/labels.h"

namespace kvik::native {

// What an input of the graph is to a row: tokens, the past and the source are rows, everything else (masks, positions, lengths) is
// auxiliary. `past_axes` knows better than the file what some inputs hold. Throws Refusal for an input that rows cannot give.
Label input_label(const Labels& labels, const FlatGraph::Input& input, const std::map<onnx::ValueId, Axes>& past_axes);

}  // namespace kvik::native
