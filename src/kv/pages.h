#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

// The KV cache: pages of a fixed number of positions for all layers, with reference counts. The kernels define what is inside a page.
namespace kvik::kv {

struct PageBlock;

struct Page {
  std::byte* data = nullptr;
  std::atomic<int32_t> n_references{0};
  PageBlock* block = nullptr;
  Page* next_free = nullptr;
};

// All pages of a model, allocated in blocks that grow with the store. Free pages are reused; blocks without a used page go back to the
// operating system once more than a reserve is free. Any thread.
class PageStore {
 public:
  // What stays allocated when it is free, besides a quarter of what is used: the larger of the two.
  static constexpr size_t kReserveBytes = size_t{16} << 20;
  static constexpr size_t kReservePages = 8;

  // page_bytes is a multiple of 64; at least 1 position.
  PageStore(size_t page_bytes, int page_positions);
  PageStore(const PageStore&) = delete;
  PageStore& operator=(const PageStore&) = delete;
  ~PageStore();

  size_t page_bytes() const { return page_bytes_; }
  int page_positions() const { return page_positions_; }

  // A page with one reference and unspecified contents. Throws Error(kTooLarge) if there is not enough memory.
  Page* take();
  static void share(Page* page) { page->n_references.fetch_add(1, std::memory_order_relaxed); }
  void release(Page* page);

  size_t reserved_bytes() const;  // allocated from the operating system
  size_t used_bytes() const;      // in pages with references

 private:
  PageBlock& add_block();
  void free_unused_blocks();

  const size_t page_bytes_;
  const int page_positions_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<PageBlock>> blocks_;  // oldest first; pages are taken from the oldest, so that the newest become unused
  size_t n_pages_ = 0;
  size_t n_free_ = 0;
};

// The page table of one sequence. One thread at a time; the store must outlive it.
class PageTable {
 public:
  explicit PageTable(PageStore& store) : store_(&store) {}
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;
  ~PageTable() { drop_pages(0); }

  int64_t length() const { return length_; }
  size_t size_bytes() const { return pages_.size() * store_->page_bytes(); }

  // Makes the pages of positions [length, end) writable: allocates missing ones and copies those shared with another sequence. Length and
  // contents do not change. Throws as PageStore::take() does.
  void prepare(int64_t end);
  // Sets the length; positions below `end` must have been prepared.
  void commit(int64_t end) { length_ = end; }
  void rewind(int64_t length);
  // Becomes a copy of another sequence and shares all its pages.
  void fork_from(const PageTable& other);

  // [position / page_positions]; valid until the next call that changes the sequence.
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
