#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "kv/page_table.h"

namespace kvik::backend {

// Keys and values of cross attention for one source; shared by all sequences that read it.
class NativeSource final : public Source {
 public:
  NativeSource(std::shared_ptr<kv::PageStore> store, int64_t n_positions) : store_(std::move(store)), pages(*store_) {
    pages.prepare(n_positions);
    pages.commit(n_positions);
  }
  int n_positions() const override { return static_cast<int>(pages.length()); }
  size_t size_bytes() const override { return pages.size_bytes(); }

 private:
  std::shared_ptr<kv::PageStore> store_;

 public:
  kv::PageTable pages;
};

// The state of a sequence besides its positions: one buffer per register.
class Registers {
 public:
  Registers() = default;
  // Initially zero; the memory must outlive them.
  Registers(kv::PageMemory& memory, std::span<const int64_t> sizes_bytes) : memory_(&memory) {
    for (const int64_t size : sizes_bytes) size_bytes_ += round_up(size);
    if (size_bytes_ == 0) return;
    block_ = memory.allocate(size_bytes_);
    size_t at = 0;
    for (const int64_t size : sizes_bytes) {
      addresses_.push_back(block_->address() + at);
      at += round_up(size);
    }
    clear();
  }
  const kv::PageAddress* addresses() const { return addresses_.data(); }
  size_t size_bytes() const { return size_bytes_; }
  void copy_from(const Registers& other) {
    if (size_bytes_ > 0) memory_->copy(block_->address(), other.block_->address(), size_bytes_);
  }
  void read(std::span<std::byte> to) const { memory_->read(to, block_->address()); }
  void write(std::span<const std::byte> from) { memory_->write(block_->address(), from); }
  void clear() {
    if (size_bytes_ > 0) write(std::vector<std::byte>(size_bytes_));
  }

 private:
  static size_t round_up(int64_t n_bytes) { return static_cast<size_t>((n_bytes + 63) / 64 * 64); }

  kv::PageMemory* memory_ = nullptr;
  std::unique_ptr<kv::MemoryBlock> block_;  // null if the plan has no registers
  size_t size_bytes_ = 0;
  std::vector<kv::PageAddress> addresses_;
};

class NativeCache final : public Cache {
 public:
  NativeCache(std::shared_ptr<kv::PageStore> store, std::span<const int64_t> register_bytes)
      : store_(std::move(store)), pages(*store_), registers(store_->memory(), register_bytes), pending(store_->memory(), register_bytes) {}

  int length() const override { return static_cast<int>(pages.length()); }
  size_t size_bytes() const override { return pages.size_bytes() + registers.size_bytes(); }

 private:
  std::shared_ptr<kv::PageStore> store_;

 public:
  kv::PageTable pages;
  size_t n_shared_pages = 0;     // number of leading pages in the prefix tree
  Registers registers, pending;  // pending: of the current call
  std::shared_ptr<const NativeSource> source;
  bool beyond = false;  // its positions are valid for sequences longer than Plan::switch_after
};

}  // namespace kvik::backend
