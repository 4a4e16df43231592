#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace kvik::kv {

// An address in a PageMemory. The host may read and write through it only if the memory is_host().
using PageAddress = std::byte*;

// Memory of one owner, freed with it. May outlive the PageMemory that it came from.
class MemoryBlock {
 public:
  MemoryBlock() = default;
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;
  virtual ~MemoryBlock() = default;
  virtual PageAddress address() const = 0;
};

// Where pages and registers are: the host's memory, or a device's. Any thread.
class PageMemory {
 public:
  virtual ~PageMemory() = default;
  virtual bool is_host() const = 0;

  // At least 64-byte aligned, contents unspecified. Throws Error(kTooLarge).
  virtual std::unique_ptr<MemoryBlock> allocate(size_t n_bytes) = 0;

  virtual void copy(PageAddress to, PageAddress from, size_t n_bytes) = 0;
  virtual void write(PageAddress to, std::span<const std::byte> from) = 0;
  virtual void read(std::span<std::byte> to, PageAddress from) = 0;
};

class HostMemory final : public PageMemory {
 public:
  bool is_host() const override { return true; }
  std::unique_ptr<MemoryBlock> allocate(size_t n_bytes) override;
  void copy(PageAddress to, PageAddress from, size_t n_bytes) override;
  void write(PageAddress to, std::span<const std::byte> from) override;
  void read(std::span<std::byte> to, PageAddress from) override;
};

}  // namespace kvik::kv
