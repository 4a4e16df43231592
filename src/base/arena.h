#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/aligned_buffer.h"

namespace kvik {

// Memory in blocks of any size on 64-byte boundaries, cut from few large buffers, so that what is freed is handed out again without
// the operating system and all of it lies in huge pages. Any thread.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Null where there is not enough.
  void* allocate(size_t size_bytes) noexcept;
  // `data` came from `allocate` or is null. Where far more lies idle than is in use, buffers go back to the operating system.
  void free(void* data) noexcept;
  size_t n_bytes_held() const;  // of the operating system

 private:
  // Stands in front of what it describes. The blocks of a buffer follow one another; no two free ones are neighbours.
  struct alignas(64) Block {
    size_t size_bytes = 0;
    Block* before = nullptr;
    Block* after = nullptr;
    Block* next_free = nullptr;
    Block* previous_free = nullptr;
    uint32_t buffer = 0;  // index in `buffers_`
    bool is_free = false;
  };
  static constexpr int kBins = 64;  // of free blocks, by the power of two of their size

  Block* take_free(size_t size_bytes);
  Block* new_buffer(size_t size_bytes);
  void cut(Block* block, size_t size_bytes);
  Block* join_neighbours(Block* block);
  static void join_next(Block* block);
  void list(Block* block);
  void unlist(Block* block);
  void give_back(const Block* block);  // which is a whole buffer
  void give_back_all();

  mutable std::mutex mutex_;
  std::vector<AlignedBuffer> buffers_;  // an empty one was given back
  std::array<Block*, kBins> bins_{};
  uint64_t filled_bins_ = 0;
  size_t held_bytes_ = 0;
  size_t used_bytes_ = 0;
};

}  // namespace kvik
