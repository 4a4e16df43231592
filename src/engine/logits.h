#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"

// Rows of logits from the run that computed them to their readers, without a copy.
namespace kvik::engine {

// A buffer that counts its readers. It does not use shared_ptr, because the pool must know for certain that the last reader has finished
// (an acquire load) before the next run writes.
class LogitsBuffer {
 public:
  class Ref {
   public:
    Ref() = default;
    explicit Ref(LogitsBuffer* buffer) : buffer_(buffer) { add(); }
    Ref(const Ref& other) : buffer_(other.buffer_) { add(); }
    Ref(Ref&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
      std::swap(buffer_, other.buffer_);
      return *this;
    }
    ~Ref() {
      if (buffer_ != nullptr && buffer_->n_readers_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete buffer_;
    }
    explicit operator bool() const { return buffer_ != nullptr; }
    backend::Logits& logits() const { return buffer_->logits_; }
    bool is_only_reader() const { return buffer_->n_readers_.load(std::memory_order_acquire) == 1; }

   private:
    void add() {
      if (buffer_ != nullptr) buffer_->n_readers_.fetch_add(1, std::memory_order_relaxed);
    }
    LogitsBuffer* buffer_ = nullptr;
  };

  static Ref make() { return Ref(new LogitsBuffer()); }

 private:
  LogitsBuffer() = default;
  backend::Logits logits_;
  std::atomic<int> n_readers_ = 0;
};

// One row of a buffer, which it keeps alive.
class LogitsRow {
 public:
  LogitsRow() = default;
  LogitsRow(LogitsBuffer::Ref buffer, int row) : buffer_(std::move(buffer)), row_(row) {}
  explicit operator bool() const { return static_cast<bool>(buffer_); }
  std::span<const float> values() const { return std::as_const(buffer_.logits()).row(row_); }
  std::span<const TokenLogit> candidates() const { return buffer_.logits().candidates(row_); }

 private:
  LogitsBuffer::Ref buffer_;
  int row_ = 0;
};

// Reuses buffers: in a steady state a few buffers are used in turn. Used by one thread at a time.
class LogitsPool {
 public:
  // A buffer without readers.
  LogitsBuffer::Ref take() {
    for (const LogitsBuffer::Ref& buffer : buffers_) {
      if (buffer.is_only_reader()) return buffer;
    }
    // Sessions that keep their logits hold many buffers; the pool tracks only the last few of them.
    if (buffers_.size() >= kMostFollowed) buffers_.erase(buffers_.begin());
    buffers_.push_back(LogitsBuffer::make());
    return buffers_.back();
  }

 private:
  static constexpr size_t kMostFollowed = 8;
  std::vector<LogitsBuffer::Ref> buffers_;
};

}  // namespace kvik::engine
