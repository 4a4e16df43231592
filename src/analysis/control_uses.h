#pragma once

#include <cstdint>
#include <vector>

#include "analysis/constants.h"
#include "analysis/flow.h"

namespace kvik::analysis {

// How a graph uses an input that is not a state; its role is derived from this.
struct ControlUses {
  struct Lookup {
    Table table;
    bool exact = false;  // the input's values are the row indices, without arithmetic
    FlowValue weight = kNone;
  };
  std::vector<Lookup> lookups;  // in tables of weights

  bool picks_tokens = false;  // the token input of an embedding operator
  bool picks_segments = false;
  bool makes_angles = false;  // reaches a sine or cosine, or the positions of a rotary embedding
  bool is_branch_condition = false;
  bool is_counted = false;  // summed, as masks are
  bool is_compared = false;
  bool meets_range = false;  // compared with or subtracted from ascending numbers, as positions are
  bool reaches_softmax = false;
  bool is_attention_mask = false;    // the mask input of an attention operator
  bool picks_rows_of_state = false;  // the indices of a scatter
  bool is_write_index = false;       // the write_indices of a TensorScatter
  bool bounds_slice = false;         // start or end of a slice of activations
  bool bounds_past = false;          // start or end of a slice of an input or of a table: the position of the first new token
  bool gathers_activations = false;
  bool is_total_length = false;
  bool is_total_length_minus_one = false;
  bool is_past_length = false;
  bool bounds_range = false;
  bool convolves_1d = false;  // the data input of a convolution; _2d: two or more axes
  bool convolves_2d = false;
  std::vector<FlowNodeId> attentions;  // some of the softmax and attention nodes that it reaches as a mask
  bool only_its_shape = true;          // no node reads the elements
};

// Follows `input` through the graph. Linear: each node is visited at most once per Distance.
ControlUses control_uses(const Flow& flow, FlowValue input);

}  // namespace kvik::analysis
