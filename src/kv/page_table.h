#pragma once

#include <span>
#include <vector>

#include "kv/pages.h"

namespace kvik::kv {

// A page that a sequence gets instead of one that it shares: its first positions are still to be copied.
struct PageCopy {
  Page* to;
  Page* from;
  int n_positions;
};

// The pages of one sequence. One thread at a time; the store must outlive it.
class PageTable {
 public:
  explicit PageTable(PageStore& store) : store_(&store) {}
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;
  ~PageTable() { clear(); }

  int64_t length() const { return length_; }
  int64_t first_kept() const;  // positions before it were dropped
  size_t size_bytes() const { return (pages_.size() - n_dropped_) * store_->shape().bytes(); }

  // The number of pages that prepare(end) takes from the store.
  size_t n_needed(int64_t end) const;
  // Makes the pages of positions [length, end) writable: allocates missing ones and copies those shared with another sequence. Length and
  // contents do not change. Throws as PageStore::take() does.
  void prepare(int64_t end);
  // The same, but adds to `copies` what the caller must copy and then pass to finish() before anything is written, also if this throws. One
  // thread at a time for all tables of a store.
  void prepare(int64_t end, std::vector<PageCopy>& copies);
  static void finish(PageStore& store, const PageCopy& copy);
  // Sets the length; positions below `end` must have been prepared.
  void commit(int64_t end) { length_ = end; }
  void rewind(int64_t length);
  void clear();
  // Gives back the pages of which every position is below `position`. They cannot be read any more.
  void drop_before(int64_t position);
  // Becomes a copy of another sequence and shares all its pages.
  void fork_from(const PageTable& other);

  // The address of each panel, [position / panel_positions]; null if it was dropped; valid until the next call that changes the sequence.
  const PageAddress* panels() const { return panels_.data(); }

  // ---- for PrefixTree
  Page* page(size_t i) const { return pages_[i]; }  // null: dropped
  void replace(size_t i, Page* same_contents);      // shares it instead of the page that it has
  void add_shared(Page* page, int64_t length);      // at the end of a table that has no page beyond its length

 private:
  template <class Replace>
  void make_writable(int64_t end, Replace replace);
  Page* take_copy(const Page& page);
  void drop_pages(size_t keep);
  void add_page(Page* page);
  void set_page(size_t i, Page* page);
  void reserve(size_t n_pages);

  PageStore* store_;
  std::vector<Page*> pages_;
  std::vector<PageAddress> panels_;
  size_t n_dropped_ = 0;  // at the front
  int64_t length_ = 0;
};

}  // namespace kvik::kv
