#pragma once

#include <cstdint>

#include "backend/native/execute/call.h"

namespace kvik::native {

// The calls for which one list of steps can be used.
struct CallShape {
  bool source = false;                    // the source's section; otherwise the body
  int32_t rows = 0;                       // a bucket
  int32_t tail_rows = 0;                  // a bucket; 0: no row is wanted
  bool all_wanted = false;                // the tail reads the body's values in place
  int32_t top = 0;                        // of the candidates of each output; 0: none
  int32_t output_place = -1;              // of the kept output, in StepMemory::arenas; negative: in the tail's, with other values
  int32_t group_rows = 1;                 // at most, of rows that share the reading of keys
  bool apart = false;                     // as device::Rows has it
  int32_t n_parts = 1, spans_a_part = 1;  // of attention

  friend bool operator==(const CallShape&, const CallShape&) = default;
};

CallShape shape_of(const RunCall& call, bool source);

}  // namespace kvik::native
