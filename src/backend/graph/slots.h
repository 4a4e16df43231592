#pragma once

#include <vector>

#include "analysis/signature.h"

namespace kvik::backend {

// One state across the files of a model: what the first step (or the encoder) returns is what the later steps take.
// Numbers are indices into File::inputs and File::outputs; -1 where that file does not have it.
struct Slot {
  analysis::State layout;  // as the later step sees it
  int first_input = -1, first_output = -1;
  int later_input = -1, later_output = -1;
  int encoder_output = -1;
};

struct Slots {
  std::vector<Slot> self;   // self attention and recurrences: carried from step to step
  std::vector<Slot> cross;  // cross attention: made once
};

// Throws Error(kBadModel) for a state that is read and never written, which no loop can feed back.
Slots find_slots(const analysis::Signature& signature);

}  // namespace kvik::backend
