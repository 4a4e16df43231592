#include "backend/native/execute/device/shared_device.h"

namespace kvik::native {
namespace {

class DeviceBlock final : public kv::MemoryBlock {
 public:
  explicit DeviceBlock(DeviceBuffer buffer) : buffer_(std::move(buffer)) {}
  kv::PageAddress address() const override { return page_address(buffer_.address()); }

 private:
  DeviceBuffer buffer_;
};

}  // namespace

device::Address device_address(kv::PageAddress address) { return static_cast<device::Address>(reinterpret_cast<uintptr_t>(address)); }
kv::PageAddress page_address(device::Address address) {
  return reinterpret_cast<kv::PageAddress>(static_cast<uintptr_t>(static_cast<uint64_t>(address)));
}

DeviceBuffer::DeviceBuffer(std::shared_ptr<SharedDevice> shared, size_t n_bytes, std::string_view what)
    : shared_(std::move(shared)), n_bytes_(n_bytes) {
  const std::lock_guard lock(shared_->mutex);
  address_ = shared_->device->allocate(n_bytes, what);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(shared_, other.shared_);
  std::swap(address_, other.address_);
  std::swap(n_bytes_, other.n_bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (address_ == device::Address::kNone) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->device->release(address_);
}

void DeviceBuffer::write(size_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->device->write(address_ + static_cast<int64_t>(offset), bytes);
}

PinnedBuffer::PinnedBuffer(std::shared_ptr<SharedDevice> shared, size_t n_bytes) : shared_(std::move(shared)) {
  const std::lock_guard lock(shared_->mutex);
  bytes_ = shared_->device->pinned(n_bytes);
}

PinnedBuffer::~PinnedBuffer() {
  if (bytes_.data() == nullptr) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->device->release_pinned(bytes_);
}

std::unique_ptr<kv::MemoryBlock> DeviceMemory::allocate(size_t n_bytes) {
  return std::make_unique<DeviceBlock>(DeviceBuffer(shared_, n_bytes, "the KV cache"));
}

void DeviceMemory::copy(kv::PageAddress to, kv::PageAddress from, size_t n_bytes) {
  const std::lock_guard lock(shared_->mutex);
  ++shared_->n_page_writes;
  shared_->device->copy(device_address(to), device_address(from), n_bytes);
}

void DeviceMemory::write(kv::PageAddress to, std::span<const std::byte> from) {
  if (from.empty()) return;
  const std::lock_guard lock(shared_->mutex);
  ++shared_->n_page_writes;
  shared_->device->write(device_address(to), from);
}

void DeviceMemory::read(std::span<std::byte> to, kv::PageAddress from) {
  const std::lock_guard lock(shared_->mutex);
  shared_->device->read(to, device_address(from));
}

}  // namespace kvik::native
