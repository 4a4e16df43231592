#include "kv/page_table.h"

#include <algorithm>

namespace kvik::kv {
namespace {

constexpr size_t kFirstPages = 64;  // of a page table

// One of those that share a page keeps it: the others leave it.
bool is_shared(const Page& page) { return page.n_references.load(std::memory_order_acquire) - page.n_leaving != 1; }

}  // namespace

int64_t PageTable::first_kept() const { return static_cast<int64_t>(n_dropped_) * store_->shape().positions(); }

size_t PageTable::n_needed(int64_t end) const {
  if (end <= length_) return 0;
  const size_t n_pages = store_->shape().n_pages(end);
  size_t n_needed = n_pages - std::min(n_pages, pages_.size());
  for (auto i = static_cast<size_t>(length_ / store_->shape().positions()); i < std::min(n_pages, pages_.size()); ++i)
    n_needed += is_shared(*pages_[i]) ? 1 : 0;
  return n_needed;
}

// replace(i) for each shared page i that will be written.
template <class Replace>
void PageTable::make_writable(int64_t end, Replace replace) {
  if (end <= length_) return;
  const size_t n_pages = store_->shape().n_pages(end);
  reserve(n_pages);
  for (auto i = static_cast<size_t>(length_ / store_->shape().positions()); i < std::min(n_pages, pages_.size()); ++i)
    if (is_shared(*pages_[i])) replace(i);
  while (pages_.size() < n_pages) add_page(store_->take());
}

void PageTable::prepare(int64_t end) {
  make_writable(end, [&](size_t i) {
    Page* own = take_copy(*pages_[i]);
    store_->release(pages_[i]);
    set_page(i, own);
  });
}

void PageTable::prepare(int64_t end, std::vector<PageCopy>& copies) {
  const int64_t positions = store_->shape().positions();
  make_writable(end, [&](size_t i) {
    if (copies.size() == copies.capacity()) copies.reserve(2 * copies.size() + 16);  // before a page is taken
    const int64_t n_positions = std::clamp<int64_t>(length_ - static_cast<int64_t>(i) * positions, 0, positions);
    copies.push_back({store_->take(), pages_[i], static_cast<int>(n_positions)});
    ++pages_[i]->n_leaving;
    set_page(i, copies.back().to);
  });
}

void PageTable::finish(PageStore& store, const PageCopy& copy) {
  --copy.from->n_leaving;
  store.release(copy.from);
}

Page* PageTable::take_copy(const Page& page) {
  Page* own = store_->take();
  try {
    store_->memory().copy(own->data, page.data, store_->shape().bytes());
  } catch (...) {
    store_->release(own);
    throw;
  }
  return own;
}

void PageTable::rewind(int64_t length) {
  length_ = std::min(length_, length);
  drop_pages(store_->shape().n_pages(length_));
}

void PageTable::clear() {
  drop_pages(0);
  length_ = 0;
}

void PageTable::drop_before(int64_t position) {
  const auto n_pages = static_cast<size_t>(std::max<int64_t>(0, position) / store_->shape().positions());
  for (; n_dropped_ < std::min(n_pages, pages_.size()); ++n_dropped_) {
    store_->release(pages_[n_dropped_]);
    pages_[n_dropped_] = nullptr;
    std::fill_n(panels_.begin() + static_cast<ptrdiff_t>(n_dropped_) * store_->shape().n_panels, store_->shape().n_panels, nullptr);
  }
}

void PageTable::fork_from(const PageTable& other) {
  drop_pages(0);
  if (pages_.capacity() > 0) reserve(other.pages_.size() + 1);  // used again and again: grows as when it is written
  pages_ = other.pages_;
  panels_ = other.panels_;
  n_dropped_ = other.n_dropped_;
  length_ = other.length_;
  for (size_t i = n_dropped_; i < pages_.size(); ++i) PageStore::share(pages_[i]);
}

void PageTable::replace(size_t i, Page* same_contents) {
  PageStore::share(same_contents);
  store_->release(pages_[i]);
  set_page(i, same_contents);
}

void PageTable::add_shared(Page* page, int64_t length) {
  reserve(pages_.size() + 1);
  PageStore::share(page);
  add_page(page);
  length_ = length;
}

void PageTable::drop_pages(size_t keep) {
  while (pages_.size() > keep) {
    if (pages_.back() != nullptr) store_->release(pages_.back());
    pages_.pop_back();
  }
  panels_.resize(pages_.size() * static_cast<size_t>(store_->shape().n_panels));
  n_dropped_ = std::min(n_dropped_, pages_.size());
}

void PageTable::add_page(Page* page) {
  pages_.push_back(page);
  panels_.resize(pages_.size() * static_cast<size_t>(store_->shape().n_panels));
  set_page(pages_.size() - 1, page);
}

void PageTable::set_page(size_t i, Page* page) {
  pages_[i] = page;
  const PageShape& shape = store_->shape();
  for (int panel = 0; panel < shape.n_panels; ++panel)
    panels_[i * static_cast<size_t>(shape.n_panels) + static_cast<size_t>(panel)] =
        page->data + static_cast<size_t>(panel) * shape.panel_bytes;
}

// An exact reserve would copy the table at every page; a thousand steps from an empty one allocate once.
void PageTable::reserve(size_t n_pages) {
  if (n_pages <= pages_.capacity()) return;
  const size_t capacity = std::max({n_pages, 2 * pages_.capacity(), kFirstPages});
  panels_.reserve(capacity * static_cast<size_t>(store_->shape().n_panels));
  pages_.reserve(capacity);
}

}  // namespace kvik::kv
