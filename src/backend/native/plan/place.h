#pragma once

#include <cstdint>
#include <vector>

#include "backend/native/plan/plan.h"

namespace kvik::native {

// Where a value lies: rows of `stride` bytes, one after another. For a call of n rows it begins at n * offset: offsets are bytes a row, so
// that one placement serves calls of every size.
struct Slot {
  int64_t offset = -1;  // -1: nowhere
  int64_t stride = 0;   // a multiple of 64
};

// Values whose lives do not overlap share memory. Each section has an arena of its own.
struct Placement {
  std::vector<Slot> of_value;                                // in the arena of the section that makes it (or is given it)
  std::vector<Slot> gathered;                                // in the tail's arena: the rows that want logits of what the body made
  std::vector<ValueIndex> crossing;                          // those
  int64_t source_bytes = 0, body_bytes = 0, tail_bytes = 0;  // of the arenas, a row
};

// `external` lies elsewhere (the caller's logits); kNoIndex: none does.
Placement place(const Plan& plan, ValueIndex external);

// Bytes of one element in a row.
int64_t element_bytes(DType dtype);
// Where a value that is its own selection keeps how many there are (0 or 1) in a row: an int32 at this byte.
int64_t count_offset(const PlanValue& value);

}  // namespace kvik::native
