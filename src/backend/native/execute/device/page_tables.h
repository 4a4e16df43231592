#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/native/execute/call.h"
#include "backend/native/execute/device/shared_device.h"

namespace kvik::native {

// Assigns table slots to sequences; the least recently used sequence loses its slot.
class Slots {
 public:
  void begin_call() { ++call_; }
  // The slot of a sequence. `key` only hints at the slot that probably has its contents.
  int of(uintptr_t key);
  int n_slots() const { return static_cast<int>(slots_.size()); }

 private:
  static constexpr size_t kKept = 1024;  // grows only if one call needs more
  struct Slot {
    uintptr_t key;
    int64_t last_call;
  };
  std::vector<Slot> slots_;
  std::unordered_map<uintptr_t, int> of_key_;
  int64_t call_ = 0;
};

// Of all positions of a sequence, and of its source.
inline std::span<const kv::PageAddress> pages_of(const RunSequence& sequence) {
  return {sequence.pages, static_cast<size_t>((sequence.n_keys + kPagePositions - 1) / kPagePositions)};
}
inline std::span<const kv::PageAddress> source_pages_of(const RunSequence& sequence) {
  return {sequence.source_pages, static_cast<size_t>((sequence.n_source + kPagePositions - 1) / kPagePositions)};
}

// Addresses in device memory, [slot][index]: of the pages of sequences, or of their registers. A host copy tracks the device's contents, so
// that a call uploads only changes.
class AddressTable {
 public:
  AddressTable(std::shared_ptr<SharedDevice> shared, std::string_view what) : shared_(std::move(shared)), what_(what) {}

  device::Address address() const { return buffer_.address(); }
  int64_t width() const { return width_; }
  // True if the table has moved.
  bool reserve(int n_slots, int64_t width);
  // Changes a slot: a few words by patches (if there is room), many words by a write.
  void set(int slot, std::span<const kv::PageAddress> addresses, size_t most_patches, std::vector<device::Patch>& patches);
  bool holds(int slot, std::span<const kv::PageAddress> addresses) const;
  // Called after a failure: the device's contents are unknown.
  void forget() { n_slots_ = 0; }

 private:
  std::shared_ptr<SharedDevice> shared_;
  std::string_view what_;
  DeviceBuffer buffer_;
  int n_slots_ = 0;
  int64_t width_ = 0;
  std::vector<kv::PageAddress> held_;  // [n_slots][width]
};

}  // namespace kvik::native
