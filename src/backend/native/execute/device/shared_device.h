#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/device/device.h"
#include "kv/page_memory.h"

namespace kvik::native {

// A device that is shared by runners and the pages of their caches; every use holds the lock.
struct SharedDevice {
  explicit SharedDevice(std::shared_ptr<device::Device> shared) : device(std::move(shared)) {}
  const std::shared_ptr<device::Device> device;
  std::recursive_mutex mutex;
  uint64_t n_page_writes = 0;  // writes and copies into pages and registers that are not steps
};

// Memory of a device, freed with its owner. Move-only.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Throws Error(kTooLarge). `what` completes "no memory for …".
  DeviceBuffer(std::shared_ptr<SharedDevice> shared, size_t n_bytes, std::string_view what);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  device::Address address() const { return address_; }
  size_t size_bytes() const { return n_bytes_; }
  void write(size_t offset, std::span<const std::byte> bytes);

 private:
  std::shared_ptr<SharedDevice> shared_;
  device::Address address_ = device::Address::kNone;
  size_t n_bytes_ = 0;
};

// Host memory that steps read and write, freed with its owner. Move-only.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  // Throws Error(kTooLarge).
  PinnedBuffer(std::shared_ptr<SharedDevice> shared, size_t n_bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(shared_, other.shared_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedBuffer();

  std::byte* data() const { return bytes_.data(); }
  device::Address address() const { return device::host_address(bytes_.data()); }
  size_t size_bytes() const { return bytes_.size(); }

 private:
  std::shared_ptr<SharedDevice> shared_;
  std::span<std::byte> bytes_;
};

inline device::Address operator+(device::Address address, int64_t n_bytes) {
  return static_cast<device::Address>(static_cast<uint64_t>(address) + static_cast<uint64_t>(n_bytes));
}

// Pages and registers in the memory of a device.
class DeviceMemory final : public kv::PageMemory {
 public:
  explicit DeviceMemory(std::shared_ptr<SharedDevice> shared) : shared_(std::move(shared)) {}

  bool is_host() const override { return false; }
  std::unique_ptr<kv::MemoryBlock> allocate(size_t n_bytes) override;
  void copy(kv::PageAddress to, kv::PageAddress from, size_t n_bytes) override;
  void write(kv::PageAddress to, std::span<const std::byte> from) override;
  void read(std::span<std::byte> to, kv::PageAddress from) override;

 private:
  std::shared_ptr<SharedDevice> shared_;
};

device::Address device_address(kv::PageAddress address);
kv::PageAddress page_address(device::Address address);

}  // namespace kvik::native
