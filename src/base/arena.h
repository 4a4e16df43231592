#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/aligned_buffer.h"

namespace kvik {

// Allocates blocks of any size on 64-byte boundaries from a few large buffers: freed memory is reused without system calls, and all of
// it is in huge pages. Any thread.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Null if there is not enough memory.
  void* allocate(size_t size_bytes) noexcept;
  // `data` came from `allocate` or is null. If far more memory is idle than in use, buffers go back to the operating system.
  void free(void* data) noexcept;
  size_t reserved_bytes() const;  // allocated from the operating system

 private:
  // A header before the memory it describes. The blocks of a buffer are adjacent; no two neighbors are free.
  struct alignas(64) Block {
    size_t size_bytes = 0;
    Block* before = nullptr;
    Block* after = nullptr;
    Block* next_free = nullptr;
    Block* previous_free = nullptr;
    uint32_t buffer = 0;  // index in `buffers_`
    bool is_free = false;
  };
  static constexpr int kBins = 64;  // free lists, by the power of two of the block size

  Block* take_free(size_t size_bytes);
  Block* new_buffer(size_t size_bytes);
  void split(Block* block, size_t size_bytes);
  Block* merge_neighbors(Block* block);
  static void merge_next(Block* block);
  void add_free(Block* block);
  void remove_free(Block* block);
  void release_buffer(const Block* block);  // of a block that is a whole buffer
  void release_all();

  mutable std::mutex mutex_;
  std::vector<AlignedBuffer> buffers_;  // an empty one was released
  std::array<Block*, kBins> bins_{};
  uint64_t filled_bins_ = 0;
  size_t reserved_bytes_ = 0;
  size_t used_bytes_ = 0;
};

}  // namespace kvik
