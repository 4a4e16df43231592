#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/attention_map.h"
#include "analysis/flow.h"

namespace kvik::analysis {

// How an input reaches an output of the graph.
struct Arrival {
  int output = -1;        // index of the graph output
  int n_arithmetic = 0;   // element-wise operations on the path: none for a cache, some for a decaying state
  bool grown = false;     // new positions were appended by a Concat or an attention operator
  int grown_axis = -1;    // axis of the input; -1: unknown
  bool cut = false;       // sliced after that
  bool only_new = false;  // the slice removes the whole past
  bool written = false;   // new positions were written into it
  int written_axis = -1;
  const FlowNode* by = nullptr;  // the node that appended or wrote
};

// How a graph uses one state.
struct StateTrace {
  std::vector<Arrival> arrivals;  // at most one per output
  std::vector<FlowValue> fresh;   // values that are appended or written
  AttentionUse use;
  bool grown = false;
  int grown_axis = -1;
  bool written = false;
  int written_axis = -1;
  int attended_axis = -1;  // the axis of keys in attention; -1: unknown
  int cut_axis = -1;       // the axis of a slice with a computed bound; -1: none
  // Known parts of the targets of its Reshapes; they distinguish heads and features.
  std::vector<std::vector<std::optional<int64_t>>> reshapes;
  // Slices that attention reads as keys or values: axis and index.
  struct Part {
    int axis;
    int64_t index;
    bool as_key, as_value;
  };
  std::vector<Part> parts;
};

StateTrace trace_state(const Flow& flow, const AttentionMap& attention, FlowValue input, int rank);

// The value before casts and reshapes (but not before slices).
FlowValue root_of(const Flow& flow, FlowValue value);

}  // namespace kvik::analysis
