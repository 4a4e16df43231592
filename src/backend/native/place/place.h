#pragma once

#include <cstdint>
#include <vector>

#include "backend/native/plan/plan.h"

// In: a fused plan.
// Out: the section of each op, and memory for its values.
// Afterwards: values whose lives do not overlap share memory, and what only rows that want logits need is in the tail.
namespace kvik::native {

// Where a value is: rows of `stride` bytes, one after another. For a call of n rows it begins at n * offset: offsets are bytes per row, so
// that one placement serves calls of every size.
struct ValuePlace {
  int64_t offset = -1;  // -1: nowhere
  int64_t stride = 0;   // a multiple of 64
};

// Values whose lives do not overlap share memory. Each section has an arena of its own.
struct Placement {
  std::vector<ValuePlace> of_value;                          // in the arena of the section that makes it (or is given it)
  std::vector<ValuePlace> gathered;                          // in the tail's arena: the rows that want logits of what the body made
  std::vector<ValueIndex> crossing;                          // those
  int64_t source_bytes = 0, body_bytes = 0, tail_bytes = 0;  // of the arenas, a row
};

// Moves to the tail whatever feeds nothing that is remembered.
void split_sections(Plan& plan);

// `external` is elsewhere (the caller's logits); kNoIndex: none is. Memory is used again `linger` operations after the last that reads it.
Placement place(const Plan& plan, ValueIndex external, int linger = 0);

// Bytes of one element in a row.
int64_t element_bytes(DType dtype);
// Where a value that is its own selection keeps how many there are (0 or 1) in a row: an int32 at this byte.
int64_t count_offset(const PlanValue& value);

}  // namespace kvik::native
