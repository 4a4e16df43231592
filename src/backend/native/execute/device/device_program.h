#pragma once

#include <memory>
#include <vector>

#include "backend/native/execute/device/call_block.h"
#include "backend/native/execute/device/call_shape.h"
#include "backend/native/execute/device/device_plan.h"
#include "backend/native/execute/device/device_tables.h"

namespace kvik::native {

// The largest logits of a row, as device::Choose writes them.
struct ChoiceRoom {
  int32_t top = 0, room = 0;
  size_t row_bytes() const { return 16 + static_cast<size_t>(room) * sizeof(device::Choice); }
};
// Capacity for this many candidates and some ties of the last one; no candidates if there are more ties.
ChoiceRoom choice_room(int n_candidates);

// The location of a value in a call of this shape: a byte offset in one of the arenas, or (token ids) the rows of the call block.
struct ValueAt {
  enum class Arena : uint8_t { kSource, kBody, kTail, kOutput, kSecondOutput, kThirdOutput, kRows, kTailRows };
  Arena arena = Arena::kBody;
  int64_t offset = 0, stride = 0;
};
ValueAt::Arena output_arena(int32_t place);
ValueAt place_of(const DevicePlan& plan, const CallShape& shape, ValueIndex value, Op::Section section);

inline constexpr size_t kArenas = 6;

// The memory that steps refer to. If any of it moves, all programs must be dropped.
struct StepMemory {
  device::Address arenas[kArenas] = {};  // by ValueAt::Arena
  device::Address halves = device::Address::kNone;
  device::Address parts = device::Address::kNone;
  const CallBlock* block = nullptr;
  const DeviceTables* tables = nullptr;
  device::PageTable pages, source_pages;
  device::RegisterTable registers;
  device::Address branches = device::Address::kNone;
  device::Address largest = device::Address::kNone;  // int32[]: the largest logit of each row, for the next call
  // In host memory, for each HostPlace: an error word, and the candidates of the rows that want logits.
  device::Address results[kHostPlaces] = {};
};
inline constexpr int64_t kChoicesAt = 64;  // in StepMemory::results, after the error word

// The steps of a call, up to an operation that runs on the host.
struct Segment {
  std::vector<device::Step> steps;
  std::unique_ptr<device::Recording> recording;
  device::Replay replay = device::Replay::kOneByOne;  // of the recording
  OpIndex host_op = kNoIndex;                         // after the steps
};

struct DeviceProgram {
  CallShape shape;
  CallLayout layout;
  std::vector<Segment> segments;
  DeviceBuffer views;      // what moves read
  bool has_error = false;  // a step may set the error word
  int n_runs = 0;
  int64_t last_run = 0;
};

int64_t view_bytes(const DevicePlan& plan);  // of the moves of all sections

}  // namespace kvik::native
