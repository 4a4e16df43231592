#pragma once

#include <span>
#include <vector>

#include "backend/native/execute/call.h"
#include "backend/native/execute/device/shared_device.h"

namespace kvik::native {

// The layout of the block that the steps of a call read in addition to values and weights; offsets in bytes. Sizes are those of a bucket,
// so that one recording works for all its calls.
struct CallLayout {
  CallLayout() = default;
  CallLayout(int most_rows, int most_tail_rows, size_t most_patches);

  int64_t n_rows = 0, n_tail_rows = 0, n_groups = 0, n_tail_groups = 0, n_patches = 0;  // int32 each
  int64_t rows = 0, tail_rows = 0;                                                      // device::Row[]
  int64_t chosen = 0;                                                                   // int32[]: rows of the tail
  int64_t groups = 0, tail_groups = 0;                                                  // device::RowGroup[]
  int64_t patches = 0;     // device::Patch[]: the last part, which the device reads in place
  int64_t size_bytes = 0;  // with all patches
};

// Consecutive rows of one sequence with consecutive positions, at most `most_rows` in a group.
void group_rows(std::span<const device::Row> rows, int most_rows, std::vector<device::RowGroup>& groups);

// A call in the form that the device reads, prepared in host memory.
class CallBlock {
 public:
  // Memory for this layout. True if the block has moved.
  bool reserve(const std::shared_ptr<SharedDevice>& shared, const CallLayout& layout);

  // Rows, those that want logits, and patches. Groups have at most `most_group_rows` rows.
  void fill(const CallLayout& layout, std::span<const device::Row> rows, std::span<const int32_t> wanted, int most_group_rows,
            std::span<const device::Patch> patches);

  device::Begin begin(const CallLayout& layout) const;  // uploads it to the device
  device::Address at(int64_t offset) const { return buffer_.address() + offset; }
  device::Row* tail_rows(const CallLayout& layout) const { return reinterpret_cast<device::Row*>(host_.data() + layout.tail_rows); }
  const std::byte* host() const { return host_.data(); }

 private:
  template <class T>
  void put(int64_t offset, std::span<const T> items);

  DeviceBuffer buffer_;
  PinnedBuffer host_;
  std::vector<device::RowGroup> groups_;
};

}  // namespace kvik::native
