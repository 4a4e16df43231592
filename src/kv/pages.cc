#include "kv/pages.h"

#include <algorithm>
#include <cstring>

namespace kvik::kv {
namespace {

constexpr size_t kFirstBlock = size_t{1} << 20;
constexpr size_t kLargestBlock = size_t{64} << 20;  // beyond, growth by doubling would reserve too much

}  // namespace

PageStore::PageStore(size_t page_bytes, int page_positions) : page_bytes_(page_bytes), page_positions_(page_positions) {}

Page* PageStore::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    const size_t reserved = blocks_.size() * kFirstBlock;
    const size_t wanted = std::clamp(reserved, kFirstBlock, kLargestBlock);
    const size_t n_pages = std::max<size_t>(1, wanted / page_bytes_);
    blocks_.emplace_back(n_pages * page_bytes_);
    free_.reserve(pages_.size() + n_pages);
    for (size_t i = n_pages; i-- > 0;) {
      pages_.emplace_back();
      pages_.back().data = blocks_.back().data() + i * page_bytes_;
      free_.push_back(&pages_.back());
    }
  }
  Page* page = free_.back();
  free_.pop_back();
  page->n_references.store(1, std::memory_order_relaxed);
  return page;
}

void PageStore::release(Page* page) {
  if (page->n_references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::lock_guard lock(mutex_);
  free_.push_back(page);  // has room: reserved for every page there is
}

size_t PageStore::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return pages_.size() * page_bytes_;
}

size_t PageStore::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return (pages_.size() - free_.size()) * page_bytes_;
}

void Sequence::prepare(int64_t end) {
  const auto positions = static_cast<size_t>(store_->page_positions());
  const size_t first = static_cast<size_t>(length_) / positions;
  const size_t n_pages = (static_cast<size_t>(end) + positions - 1) / positions;
  pages_.reserve(n_pages);
  addresses_.reserve(n_pages);
  for (size_t i = first; i < std::min(n_pages, pages_.size()); ++i) {
    if (pages_[i]->n_references.load(std::memory_order_acquire) == 1) continue;
    Page* own = store_->take();
    std::memcpy(own->data, pages_[i]->data, store_->page_bytes());
    store_->release(pages_[i]);
    set_page(i, own);
  }
  while (pages_.size() < n_pages) {
    Page* fresh = store_->take();
    pages_.push_back(fresh);
    addresses_.push_back(fresh->data);
  }
}

void Sequence::rewind(int64_t length) {
  length_ = std::min(length_, length);
  const int64_t positions = store_->page_positions();
  drop_pages(static_cast<size_t>((length_ + positions - 1) / positions));
}

void Sequence::fork_from(const Sequence& other) {
  drop_pages(0);
  pages_ = other.pages_;
  addresses_ = other.addresses_;
  length_ = other.length_;
  for (Page* page : pages_) PageStore::share(page);
}

void Sequence::drop_pages(size_t keep) {
  while (pages_.size() > keep) {
    store_->release(pages_.back());
    pages_.pop_back();
    addresses_.pop_back();
  }
}

void Sequence::set_page(size_t i, Page* page) {
  pages_[i] = page;
  addresses_[i] = page->data;
}

}  // namespace kvik::kv
