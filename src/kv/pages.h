#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "base/aligned_buffer.h"

// The cache of keys and values: pages of a fixed number of positions for all layers, counted by who refers to them. What is inside a page
// is the business of the kernels.
namespace kvik::kv {

struct Page {
  std::byte* data = nullptr;
  std::atomic<int32_t> n_references{0};
};

// All pages of a model, from one arena that grows in blocks. Pages that nobody refers to are used again. Any thread.
class PageStore {
 public:
  // page_bytes is a multiple of 64; at least 1 position.
  PageStore(size_t page_bytes, int page_positions);

  size_t page_bytes() const { return page_bytes_; }
  int page_positions() const { return page_positions_; }

  // A page with one reference and contents of any kind. Throws Error(kTooLarge) when memory is out.
  Page* take();
  static void share(Page* page) { page->n_references.fetch_add(1, std::memory_order_relaxed); }
  void release(Page* page);

  size_t reserved_bytes() const;  // taken from the system
  size_t used_bytes() const;      // of pages that somebody refers to

 private:
  const size_t page_bytes_;
  const int page_positions_;
  mutable std::mutex mutex_;
  std::vector<AlignedBuffer> blocks_;
  std::deque<Page> pages_;  // never moves
  std::vector<Page*> free_;
};

// The pages of one sequence. One thread at a time; the store outlives it.
class Sequence {
 public:
  explicit Sequence(PageStore& store) : store_(&store) {}
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence() { drop_pages(0); }

  int64_t length() const { return length_; }
  size_t size_bytes() const { return pages_.size() * store_->page_bytes(); }

  // Pages for positions [length, end), which may be written from now on: what another sequence shares is copied first. Changes nothing
  // that can be seen; throws as PageStore::take() does.
  void prepare(int64_t end);
  // The prepared positions below `end` count from now on.
  void commit(int64_t end) { length_ = end; }
  void rewind(int64_t length);
  // Becomes a copy of another sequence: shares all its pages.
  void fork_from(const Sequence& other);

  // [position / page_positions]; holds until the next call that changes the sequence.
  std::byte* const* pages() const { return addresses_.data(); }

 private:
  void drop_pages(size_t keep);
  void set_page(size_t i, Page* page);

  PageStore* store_;
  std::vector<Page*> pages_;
  std::vector<std::byte*> addresses_;  // of pages_
  int64_t length_ = 0;
};

}  // namespace kvik::kv
