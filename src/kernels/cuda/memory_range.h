#pragma once

#include "kernels/device/steps.h"

namespace kvik::cuda {

// Memory that rows of a view have. Different blocks of a launch may write one range and read another only if they do not overlap.
struct MemoryRange {
  uint64_t begin = 0, end = 0;
  bool overlaps(const MemoryRange& other) const { return begin < other.end && other.begin < end; }
};

inline MemoryRange range_of(const device::View& view, int64_t n_rows, int64_t row_bytes) {
  const auto begin = static_cast<uint64_t>(view.base);
  return {begin, begin + static_cast<uint64_t>((n_rows - 1) * view.stride + row_bytes)};
}

inline bool is_same(const device::View& a, const device::View& b) {
  return a.base == b.base && a.stride == b.stride && !a.by_position && !b.by_position;
}
inline bool is_same(const device::Rows& a, const device::Rows& b) { return a.rows == b.rows && a.n_rows == b.n_rows && a.most == b.most; }

}  // namespace kvik::cuda
