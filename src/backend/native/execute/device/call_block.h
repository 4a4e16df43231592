#pragma once

#include <array>
#include <span>
#include <vector>

#include "backend/native/execute/call.h"
#include "backend/native/execute/device/shared_device.h"

namespace kvik::native {

// Where the logits of a call are kept: one place is written while the rows of two calls before are still read.
inline constexpr size_t kOutputPlaces = 3;
// What a call shares with the host, so that a call can be prepared while another one runs: for calls whose logits are not kept (place -1),
// and for each place.
inline constexpr size_t kHostPlaces = 1 + kOutputPlaces;
inline size_t host_place(int32_t output_place) { return static_cast<size_t>(output_place + 1); }

// The layout of the block that the steps of a call read in addition to values and weights; offsets in bytes. Sizes are those of a bucket,
// so that one recording works for all its calls.
struct CallLayout {
  CallLayout() = default;
  CallLayout(int most_rows, int most_tail_rows, size_t most_patches);

  int64_t n_rows = 0, n_tail_rows = 0, n_groups = 0, n_tail_groups = 0, n_patches = 0, n_continued = 0;  // int32 each
  int64_t rows = 0, tail_rows = 0;                                                                       // device::Row[]
  int64_t chosen = 0;                                                                                    // int32[]: rows of the tail
  int64_t groups = 0, tail_groups = 0;                                                                   // device::RowGroup[]
  int64_t patches = 0;     // device::Patch[]: the last part, which the device reads in place
  int64_t size_bytes = 0;  // with all patches
};

// Consecutive rows of one sequence with consecutive positions, at most `most_rows` in a group.
void group_rows(std::span<const device::Row> rows, int most_rows, std::vector<device::RowGroup>& groups);

// A call in the form that the device reads, prepared in host memory.
class CallBlock {
 public:
  struct Contents {
    std::span<const device::Row> rows;
    std::span<const int32_t> wanted;  // rows that want logits
    int most_group_rows = 1;
    std::span<const device::Patch> patches;
    bool continues = false;  // the tokens are those that the call before has chosen
  };
  // Memory for this layout. True if the block has moved.
  bool reserve(const std::shared_ptr<SharedDevice>& shared, const CallLayout& layout);

  // `place`: of the host, where no call may be running.
  void fill(const CallLayout& layout, size_t place, const Contents& contents);

  // Uploads it to the device. `chosen`: as Begin has it.
  device::Begin begin(const CallLayout& layout, size_t place, device::Address chosen) const;
  device::Address at(int64_t offset) const { return buffer_.address() + offset; }
  const std::byte* host(size_t place) const { return host_[place].data(); }

 private:
  DeviceBuffer buffer_;
  std::array<PinnedBuffer, kHostPlaces> host_;
  std::vector<device::RowGroup> groups_;
};

}  // namespace kvik::native
