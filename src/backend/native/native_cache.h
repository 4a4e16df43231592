#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/aligned_buffer.h"
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

// What a sequence keeps beside its positions: one buffer a register.
class Registers {
 public:
  Registers() = default;
  explicit Registers(std::vector<int64_t> sizes_bytes) : sizes_(std::move(sizes_bytes)) {
    int64_t total = 0;
    for (const int64_t size : sizes_) total += (size + 63) / 64 * 64;
    if (total > 0) memory_ = AlignedBuffer(static_cast<size_t>(total));
    int64_t at = 0;
    for (const int64_t size : sizes_) {
      addresses_.push_back(memory_.data() + at);
      at += (size + 63) / 64 * 64;
    }
  }
  std::byte* const* addresses() const { return addresses_.data(); }
  size_t size_bytes() const { return memory_.size_bytes(); }
  void copy_from(const Registers& other) { std::copy(other.memory_.bytes().begin(), other.memory_.bytes().end(), memory_.bytes().begin()); }
  std::span<std::byte> bytes() const { return memory_.bytes(); }
  void clear() { std::fill(memory_.bytes().begin(), memory_.bytes().end(), std::byte{0}); }
  const std::vector<int64_t>& sizes_bytes() const { return sizes_; }

 private:
  std::vector<int64_t> sizes_;
  AlignedBuffer memory_;
  std::vector<std::byte*> addresses_;
};

class NativeCache final : public Cache {
 public:
  NativeCache(std::shared_ptr<kv::PageStore> store, std::vector<int64_t> register_bytes)
      : store_(std::move(store)), pages(*store_), registers(register_bytes), pending(std::move(register_bytes)) {}

  int length() const override { return static_cast<int>(pages.length()); }
  size_t size_bytes() const override { return pages.size_bytes() + registers.size_bytes(); }

 private:
  std::shared_ptr<kv::PageStore> store_;

 public:
  kv::PageTable pages;
  size_t n_shared_pages = 0;     // the first ones, known to the prefix tree
  Registers registers, pending;  // pending: of a call under way
  std::shared_ptr<const NativeSource> source;
  bool beyond = false;  // its positions are those of a sequence longer than Plan::switch_after
};

}  // namespace kvik::backend
