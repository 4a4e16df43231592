#pragma once

#include <vector>

#include "analysis/signature.h"

namespace kvik::backend {

// One state across the files of a model: an output of the first step (or the encoder) and an input of later steps. Indices into
// File::inputs and File::outputs; -1 if the file does not have it.
struct Slot {
  analysis::State layout;  // as declared by the later step
  int first_input = -1, first_output = -1;
  int later_input = -1, later_output = -1;
  int encoder_output = -1;
};

struct Slots {
  std::vector<Slot> self;   // self attention and recurrent states: passed from step to step
  std::vector<Slot> cross;  // cross attention: computed once
};

// Throws Error(kBadModel) for a state that is read but never returned.
Slots find_slots(const analysis::Signature& signature);

}  // namespace kvik::backend
