#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/token.h"
#include "kv/page_memory.h"
#include "kvik/error.h"

// The KV cache: pages of a fixed number of positions for all layers, with reference counts. The kernels define what is inside a page.
namespace kvik::kv {

struct PageBlock;

// The fields from `tokens` on belong to PrefixTree: they live here so that adding a page to the tree allocates nothing.
struct Page {
  PageAddress data = nullptr;
  std::atomic<int32_t> n_references{0};
  PageBlock* block = nullptr;
  Page* next_free = nullptr;
  int32_t n_leaving = 0;  // references that end once they have their copies (PageCopy)

  TokenId* tokens = nullptr;  // room for a page of them
  int32_t n_tokens = 0;       // 0: not in the tree
  int32_t n_children = 0;
  int32_t n_pins = 0;
  Page* parent = nullptr;
  Page* newest_child = nullptr;  // most recently used
  Page* newer_sibling = nullptr;
  Page* older_sibling = nullptr;
  Page* next_in_bucket = nullptr;
  Page* newer = nullptr;
  Page* older = nullptr;
};

// The error of callers that have no status to return when a budget is used up.
Error no_memory(size_t limit_bytes);

class PageStore;

// Memory that several stores share: the bytes they have allocated together stay within a limit. If a store needs more, the others release
// what they keep in reserve. Any thread.
class Budget {
 public:
  explicit Budget(size_t limit_bytes = 0) : limit_bytes_(limit_bytes) {}  // 0: no limit

  size_t limit_bytes() const { return limit_bytes_.load(std::memory_order_relaxed); }
  void set_limit(size_t bytes) { limit_bytes_ = bytes; }  // nothing is freed; more is taken only below it
  size_t allocated_bytes() const { return allocated_bytes_.load(std::memory_order_relaxed); }
  size_t left_bytes() const;
  bool take(size_t bytes);  // false, and nothing taken, if that is more than is left
  void give_back(size_t bytes) { allocated_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  void free_reserves(const PageStore& but);  // of the other stores

  void add(PageStore& store);
  void remove(const PageStore& store);

 private:
  std::mutex mutex_;  // of the list
  std::vector<PageStore*> stores_;
  std::atomic<size_t> limit_bytes_;
  std::atomic<size_t> allocated_bytes_{0};
};

// The size of a page: `n_panels` panels, each of as many positions as the kernels read together. Results do not depend on n_panels.
struct PageShape {
  size_t panel_bytes = 64;  // a multiple of 64
  int panel_positions = 1;
  int n_panels = 1;

  size_t bytes() const { return panel_bytes * static_cast<size_t>(n_panels); }
  int positions() const { return panel_positions * n_panels; }
  size_t n_pages(int64_t n_positions) const { return static_cast<size_t>((n_positions + positions() - 1) / positions()); }
};

// All pages of a model, allocated in blocks that grow with the store. Free pages are reused; blocks without a used page go back to the
// operating system once more than a reserve is free. Any thread.
class PageStore {
 public:
  // What stays allocated when it is free, besides a quarter of what is used: the larger of the two.
  static constexpr size_t kReserveBytes = size_t{64} << 20;
  static constexpr size_t kReservePages = 8;

  // `memory` null: the host's.
  explicit PageStore(const PageShape& shape, std::shared_ptr<Budget> budget = nullptr, std::shared_ptr<PageMemory> memory = nullptr);
  PageStore(const PageStore&) = delete;
  PageStore& operator=(const PageStore&) = delete;
  ~PageStore();

  const PageShape& shape() const { return shape_; }
  PageMemory& memory() const { return *memory_; }

  // A page with one reference and unspecified contents. Throws Error(kTooLarge) if there is not enough memory.
  Page* take();
  static void share(Page* page) { page->n_references.fetch_add(1, std::memory_order_relaxed); }
  void release(Page* page);

  bool can_take(size_t n_pages) const;  // within the budget
  void free_reserve();                  // blocks without a used page; does nothing while another thread uses the store
  size_t n_pages() const;               // used or free
  size_t allocated_bytes() const;       // from the operating system
  size_t used_bytes() const;            // in pages with references

 private:
  PageBlock& add_block();
  void free_unused_blocks(size_t n_reserve);  // keeps so many free pages

  const PageShape shape_;
  const std::shared_ptr<Budget> budget_;
  const std::shared_ptr<PageMemory> memory_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<PageBlock>> blocks_;  // oldest first; pages are taken from the oldest, so that the newest become unused
  size_t n_pages_ = 0;
  size_t n_free_ = 0;
};

}  // namespace kvik::kv
