#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/aligned_buffer.h"

namespace kvik::native {

// Packed matrices side by side in a few large buffers. A matrix in a buffer of its own begins and ends in small pages, or is in them
// altogether, and those are read more slowly than huge ones. What is not taken of a buffer is never touched and takes no memory.
class WeightMemory {
 public:
  // expected_bytes: about how much will be taken in all.
  explicit WeightMemory(int64_t expected_bytes) : expected_bytes_(static_cast<size_t>(expected_bytes)) {}

  struct Room {
    std::shared_ptr<const AlignedBuffer> buffer;
    std::byte* data = nullptr;  // zeroed, 64-byte aligned
  };

  // Throws Error(kTooLarge).
  Room take(size_t size_bytes) {
    if (buffer_ == nullptr || size_bytes > buffer_->size_bytes() - used_bytes_) {
      buffer_ = std::make_shared<const AlignedBuffer>(std::max(size_bytes, std::min(expected_bytes_, kBufferBytes)));
      used_bytes_ = 0;
    }
    const Room room{buffer_, buffer_->data() + used_bytes_};
    expected_bytes_ -= std::min(expected_bytes_, size_bytes);
    used_bytes_ = std::min((used_bytes_ + size_bytes + 63) / 64 * 64, buffer_->size_bytes());
    return room;
  }

 private:
  static constexpr size_t kBufferBytes = size_t{64} << 20;
  size_t expected_bytes_;
  std::shared_ptr<const AlignedBuffer> buffer_;
  size_t used_bytes_ = 0;
};

}  // namespace kvik::native
