#pragma once

#include <cstdint>
#include <vector>

#include "backend/native/plan/plan.h"

// In: a fused plan.
// Out: the section of each op, and memory for its values.
// Afterwards: values whose lifetimes do not overlap share memory, and ops that only rows with logits need are in the tail.
namespace kvik::native {

// The location of a value: consecutive rows of `stride` bytes. For a call of n rows it begins at n * offset: offsets are bytes per row, so
// that one placement works for calls of every size.
struct ValuePlace {
  int64_t offset = -1;  // -1: nowhere
  int64_t stride = 0;   // a multiple of 64
};

// Values whose lifetimes do not overlap share memory. Each section has its own arena.
struct Placement {
  std::vector<ValuePlace> of_value;                          // in the arena of the section that computes it (or is given it)
  std::vector<ValuePlace> gathered;                          // in the tail's arena: the body's values for the rows that want logits
  std::vector<ValueIndex> crossing;                          // those
  int64_t source_bytes = 0, body_bytes = 0, tail_bytes = 0;  // of the arenas, per row
};

// Moves ops that feed no cache and no register to the tail.
void split_sections(Plan& plan);

// `external`: a value in other memory (the caller's logits); kNoIndex: none. Memory is reused `linger` ops after its last reader.
Placement place(const Plan& plan, ValueIndex external, int linger = 0);

// Bytes of one element in a row.
int64_t element_bytes(DType dtype);
// Byte offset in a row of the int32 count (0 or 1) of a value that is its own selection.
int64_t count_offset(const PlanValue& value);

}  // namespace kvik::native
