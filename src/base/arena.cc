#include "base/arena.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/huge_page.h"
#include "kvik/error.h"

namespace kvik {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kLargestStep = size_t{64} << 20;  // buffers double in size up to this, unless one block is larger
constexpr size_t kIdleReserve = size_t{64} << 20;  // plus as much as is in use: what one run frees, the next one takes again
constexpr size_t kLargestBlock = size_t{1} << 62;

size_t rounded_up(size_t size_bytes, size_t to) { return (size_bytes + to - 1) / to * to; }

size_t bin_of(size_t size_bytes) { return std::bit_width(size_bytes) - 1; }

}  // namespace

void* Arena::allocate(size_t size_bytes) noexcept {
  if (size_bytes > kLargestBlock) return nullptr;
  const size_t wanted = rounded_up(std::max<size_t>(size_bytes, 1), kAlignment);
  const std::lock_guard lock(mutex_);
  Block* block = take_free(wanted);
  if (block == nullptr) block = new_buffer(wanted);
  if (block == nullptr) return nullptr;
  split(block, wanted);
  used_bytes_ += block->size_bytes;
  return block + 1;
}

void Arena::free(void* data) noexcept {
  if (data == nullptr) return;
  const std::lock_guard lock(mutex_);
  Block* block = static_cast<Block*>(data) - 1;
  used_bytes_ -= block->size_bytes;
  if (used_bytes_ == 0) return release_all();
  block = merge_neighbors(block);
  const bool whole_buffer = block->before == nullptr && block->after == nullptr;
  const size_t idle_without = reserved_bytes_ - used_bytes_ - block->size_bytes;
  if (whole_buffer && idle_without > used_bytes_ + kIdleReserve) return release_buffer(block);
  add_free(block);
}

size_t Arena::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_bytes_;
}

// The smallest block that fits, from the first bin that has one.
Arena::Block* Arena::take_free(size_t size_bytes) {
  const size_t first = bin_of(size_bytes);
  for (uint64_t bins = filled_bins_ >> first << first; bins != 0; bins &= bins - 1) {
    Block* best = nullptr;
    for (Block* block = bins_[static_cast<size_t>(std::countr_zero(bins))]; block != nullptr; block = block->next_free) {
      if (block->size_bytes >= size_bytes && (best == nullptr || block->size_bytes < best->size_bytes)) best = block;
    }
    if (best == nullptr) continue;
    remove_free(best);
    return best;
  }
  return nullptr;
}

Arena::Block* Arena::new_buffer(size_t size_bytes) {
  const size_t step = std::clamp(std::bit_floor(reserved_bytes_), kHugePage, kLargestStep);
  try {
    auto place = std::find_if(buffers_.begin(), buffers_.end(), [](const AlignedBuffer& buffer) { return buffer.size_bytes() == 0; });
    if (place == buffers_.end()) place = buffers_.emplace(place);
    *place = AlignedBuffer(std::max(step, rounded_up(size_bytes + sizeof(Block), kHugePage)));
    reserved_bytes_ += place->size_bytes();
    Block* block = new (place->data()) Block{};
    block->size_bytes = place->size_bytes() - sizeof(Block);
    block->buffer = static_cast<uint32_t>(place - buffers_.begin());
    return block;
  } catch (const Error&) { return nullptr; } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Shrinks `block` to the wanted size; the rest becomes a free block.
void Arena::split(Block* block, size_t size_bytes) {
  if (block->size_bytes < size_bytes + sizeof(Block) + kAlignment) return;
  Block* rest = new (reinterpret_cast<std::byte*>(block + 1) + size_bytes) Block{};
  rest->size_bytes = block->size_bytes - size_bytes - sizeof(Block);
  rest->buffer = block->buffer;
  rest->before = block;
  rest->after = block->after;
  if (rest->after != nullptr) rest->after->before = rest;
  block->after = rest;
  block->size_bytes = size_bytes;
  add_free(rest);
}

Arena::Block* Arena::merge_neighbors(Block* block) {
  if (block->after != nullptr && block->after->is_free) {
    remove_free(block->after);
    merge_next(block);
  }
  if (block->before == nullptr || !block->before->is_free) return block;
  block = block->before;
  remove_free(block);
  merge_next(block);
  return block;
}

void Arena::merge_next(Block* block) {
  const Block* next = block->after;
  block->size_bytes += sizeof(Block) + next->size_bytes;
  block->after = next->after;
  if (block->after != nullptr) block->after->before = block;
}

void Arena::add_free(Block* block) {
  Block*& first = bins_[bin_of(block->size_bytes)];
  block->is_free = true;
  block->previous_free = nullptr;
  block->next_free = first;
  if (first != nullptr) first->previous_free = block;
  first = block;
  filled_bins_ |= uint64_t{1} << bin_of(block->size_bytes);
}

void Arena::remove_free(Block* block) {
  Block*& first = bins_[bin_of(block->size_bytes)];
  if (block->previous_free != nullptr) block->previous_free->next_free = block->next_free;
  if (block->next_free != nullptr) block->next_free->previous_free = block->previous_free;
  if (first == block) first = block->next_free;
  if (first == nullptr) filled_bins_ &= ~(uint64_t{1} << bin_of(block->size_bytes));
  block->is_free = false;
}

void Arena::release_buffer(const Block* block) {
  AlignedBuffer& buffer = buffers_[block->buffer];
  reserved_bytes_ -= buffer.size_bytes();
  buffer = AlignedBuffer();
}

void Arena::release_all() {
  buffers_.clear();
  bins_ = {};
  filled_bins_ = 0;
  reserved_bytes_ = 0;
}

}  // namespace kvik
