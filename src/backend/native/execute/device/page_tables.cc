#include "backend/native/execute/device/page_tables.h"

#include <algorithm>
#include <bit>

namespace kvik::native {

int Slots::of(uintptr_t key) {
  if (const auto found = of_key_.find(key); found != of_key_.end()) {
    slots_[static_cast<size_t>(found->second)].last_call = call_;
    return found->second;
  }
  const auto oldest = std::ranges::min_element(slots_, {}, &Slot::last_call);
  size_t slot = slots_.size();
  if (slots_.size() < kKept || oldest->last_call == call_) {
    slots_.push_back({key, call_});
  } else {
    of_key_.erase(oldest->key);
    *oldest = {key, call_};
    slot = static_cast<size_t>(oldest - slots_.begin());
  }
  of_key_.emplace(key, static_cast<int>(slot));
  return static_cast<int>(slot);
}

bool AddressTable::reserve(int n_slots, int64_t width) {
  if (n_slots <= n_slots_ && width <= width_) return false;
  constexpr int kFirstSlots = 16;
  constexpr int64_t kFirstWidth = 32;
  const auto power = [](int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); };
  const auto slots = static_cast<int>(power(std::max({n_slots, n_slots_, kFirstSlots})));
  const int64_t wide = power(std::max({width, width_, kFirstWidth}));
  std::vector<kv::PageAddress> empty(static_cast<size_t>(slots * wide), nullptr);
  const size_t n_bytes = empty.size() * sizeof(kv::PageAddress);
  const bool moves = buffer_.size_bytes() != n_bytes;
  if (moves) buffer_ = DeviceBuffer(shared_, n_bytes, what_);
  n_slots_ = 0;
  buffer_.write(0, std::as_bytes(std::span(empty)));
  held_ = std::move(empty);
  n_slots_ = slots;
  const bool wider = width_ != wide;
  width_ = wide;
  return moves || wider;
}

bool AddressTable::holds(int slot, std::span<const kv::PageAddress> addresses) const {
  if (slot >= n_slots_ || static_cast<int64_t>(addresses.size()) > width_) return false;
  return std::ranges::equal(std::span(held_).subspan(static_cast<size_t>(slot * width_), addresses.size()), addresses);
}

void AddressTable::set(int slot, std::span<const kv::PageAddress> addresses, size_t most_patches, std::vector<device::Patch>& patches) {
  static_assert(sizeof(kv::PageAddress) == sizeof(device::Address));
  const std::span<kv::PageAddress> held = std::span(held_).subspan(static_cast<size_t>(slot * width_), addresses.size());
  const auto [first, first_new] = std::ranges::mismatch(held, addresses);
  if (first == held.end()) return;
  auto end = held.size();
  const auto begin = static_cast<size_t>(first - held.begin());
  while (held[end - 1] == addresses[end - 1]) --end;
  const auto at = [&](size_t i) {
    return buffer_.address() + static_cast<int64_t>((static_cast<size_t>(slot * width_) + i) * sizeof(device::Address));
  };
  constexpr size_t kFew = 64;  // words that are cheaper as patches than as a transfer of their own
  if (end - begin <= kFew && patches.size() + (end - begin) <= most_patches) {
    for (size_t i = begin; i < end; ++i) {
      if (held[i] != addresses[i]) patches.push_back({at(i), static_cast<uint64_t>(device_address(addresses[i]))});
    }
  } else {
    shared_->device->write(at(begin), std::as_bytes(addresses.subspan(begin, end - begin)));
  }
  std::copy(addresses.begin(), addresses.end(), held.begin());
}

}  // namespace kvik::native
