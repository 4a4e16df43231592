#pragma once

#include <cstdint>
#include <vector>

#include "analysis/constants.h"
#include "analysis/flow.h"

namespace kvik::analysis {

// What a graph does with an input that is no state: the facts its role is read from.
struct ControlUses {
  struct Lookup {
    Table table;
    bool exact = false;  // the input's own numbers are the row numbers; not computed from them
    FlowValue weight = kNone;
  };
  std::vector<Lookup> lookups;  // in tables of weights

  bool picks_tokens = false;  // the token input of an operator that embeds
  bool picks_segments = false;
  bool makes_angles = false;  // reaches a sine or cosine, or the positions of a rotary operator
  bool is_branch_condition = false;
  bool is_counted = false;  // summed or cumulated, as masks are
  bool is_compared = false;
  bool meets_range = false;  // put in order with, or subtracted from, a row of ascending numbers, as positions are
  bool reaches_softmax = false;
  bool is_attention_mask = false;    // the mask input of an attention operator
  bool picks_rows_of_state = false;  // says where a scatter writes
  bool is_write_index = false;       // the same of a TensorScatter
  bool bounds_slice = false;         // an end or start of a slice of activations
  bool gathers_activations = false;
  bool is_total_length = false;
  bool is_total_length_minus_one = false;
  bool is_past_length = false;
  bool bounds_range = false;
  bool convolves_1d = false;  // the data of a convolution with one, two or more axes
  bool convolves_2d = false;
  std::vector<FlowNodeId> attentions;  // the softmaxes and attention operators that it reaches as a mask, some of them
  bool only_its_shape = true;          // nothing reads the elements
};

// Follows `input` forward. Visits no node more often than there are ways to use a value, so the cost is linear.
ControlUses control_uses(const Flow& flow, FlowValue input);

}  // namespace kvik::analysis
