#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/attention_map.h"
#include "analysis/flow.h"

namespace kvik::analysis {

// How the contents of an input arrive at an output of the graph.
struct Arrival {
  int output = -1;        // index of the graph output
  int n_arithmetic = 0;   // element-wise operations on the way: a cache has none, a decaying state some
  bool grown = false;     // new positions were put to its end, by a Concat or an operator
  int grown_axis = -1;    // axis of the input; -1 when the way there could not be followed
  bool cut = false;       // some of it was sliced off after that
  bool only_new = false;  // all that was there before, as lengths in the graph say
  bool written = false;   // new positions were written into it
  int written_axis = -1;
  const FlowNode* by = nullptr;  // the operator that did either
};

// Everything a graph does with one state.
struct StateTrace {
  std::vector<Arrival> arrivals;  // at most one for each output
  std::vector<FlowValue> fresh;   // what is put to its end or written into it
  AttentionUse use;
  bool grown = false;
  int grown_axis = -1;
  bool written = false;
  int written_axis = -1;
  // Targets of the Reshapes of it as far as they are constants: they tell heads and features apart.
  std::vector<std::vector<std::optional<int64_t>>> reshapes;
  // Parts that were taken of it as keys or values: which index along which of its axes.
  struct Part {
    int axis;
    int64_t index;
    bool as_key, as_value;
  };
  std::vector<Part> parts;
};

StateTrace trace_state(const Flow& flow, const AttentionMap& attention, FlowValue input, int rank);

// The value that a value is a mere copy of, behind casts and changes of shape (not behind slices).
FlowValue root_of(const Flow& flow, FlowValue value);

}  // namespace kvik::analysis
