#pragma once

#include <vector>

#include "kernels/cuda/memory_range.h"
#include "kernels/device/device.h"

namespace kvik::cuda {

// Memory of rows that a row step reads or writes, but for tables, pages and registers.
struct MemoryUse {
  device::View view;
  int64_t row_bytes = 0;
  bool writes = false;
  int element_bytes = 4;
};
// Empty for steps other than row steps. The inputs of a Move are not included.
std::vector<MemoryUse> row_uses(const device::Step& step);

// Whether a thread that works on its elements of a row may come upon what another thread does: one use writes, they have a byte in common,
// and their elements are not the same. Rows of one view may lie between those of another, as scales behind the halves of their row do.
bool meets_other_elements(const MemoryUse& a, const MemoryUse& b, int n_rows);

// Whether a block that works on one row may come upon what another block does for its row, if one use is of an earlier step than the other.
bool meets_other_rows(const MemoryUse& a, const MemoryUse& b, int n_rows);

}  // namespace kvik::cuda
