#include "kv/pages.h"

#include <algorithm>
#include <cstring>

#include "base/aligned_buffer.h"

namespace kvik::kv {

struct PageBlock {
  AlignedBuffer memory;
  std::unique_ptr<Page[]> pages;
  Page* first_free = nullptr;
  size_t n_pages = 0;
  size_t n_free = 0;
};

namespace {

constexpr size_t kFirstPages = 64;  // of a page table
constexpr size_t kFirstBlock = size_t{1} << 20;
constexpr size_t kLargestBlock = size_t{16} << 20;  // at most the reserve, so that a block more or less does not matter

void push_free(PageBlock& block, Page& page) {
  page.next_free = block.first_free;
  block.first_free = &page;
  ++block.n_free;
}

}  // namespace

PageStore::PageStore(size_t page_bytes, int page_positions) : page_bytes_(page_bytes), page_positions_(page_positions) {}
PageStore::~PageStore() = default;

Page* PageStore::take() {
  const std::lock_guard lock(mutex_);
  const auto has_free = [](const std::unique_ptr<PageBlock>& block) { return block->n_free > 0; };
  const auto found = n_free_ == 0 ? blocks_.end() : std::find_if(blocks_.begin(), blocks_.end(), has_free);
  PageBlock& block = found == blocks_.end() ? add_block() : **found;
  Page* page = block.first_free;
  block.first_free = page->next_free;
  --block.n_free;
  --n_free_;
  page->n_references.store(1, std::memory_order_relaxed);
  return page;
}

// Blocks grow with the store: a small model reserves little, a large one makes few system calls.
PageBlock& PageStore::add_block() {
  auto block = std::make_unique<PageBlock>();
  block->n_pages = std::max<size_t>(1, std::clamp(n_pages_ * page_bytes_ / 4, kFirstBlock, kLargestBlock) / page_bytes_);
  block->memory = AlignedBuffer(block->n_pages * page_bytes_);
  block->pages = std::make_unique<Page[]>(block->n_pages);
  for (size_t i = block->n_pages; i-- > 0;) {
    block->pages[i].data = block->memory.data() + i * page_bytes_;
    block->pages[i].block = block.get();
    push_free(*block, block->pages[i]);
  }
  blocks_.push_back(std::move(block));
  n_pages_ += blocks_.back()->n_pages;
  n_free_ += blocks_.back()->n_pages;
  return *blocks_.back();
}

void PageStore::release(Page* page) {
  if (page->n_references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::lock_guard lock(mutex_);
  push_free(*page->block, *page);
  ++n_free_;
  if (page->block->n_free == page->block->n_pages) free_unused_blocks();
}

void PageStore::free_unused_blocks() {
  const size_t n_used = n_pages_ - n_free_;
  const size_t n_reserve = std::max(kReserveBytes / page_bytes_, kReservePages) + n_used / 4;
  for (size_t i = blocks_.size(); i-- > 0 && n_free_ > n_reserve;) {
    const size_t n_pages = blocks_[i]->n_pages;
    if (blocks_[i]->n_free != n_pages || n_free_ - n_pages < n_reserve) continue;
    n_pages_ -= n_pages;
    n_free_ -= n_pages;
    blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(i));
  }
}

size_t PageStore::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return n_pages_ * page_bytes_;
}

size_t PageStore::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return (n_pages_ - n_free_) * page_bytes_;
}

void PageTable::prepare(int64_t end) {
  const auto positions = static_cast<size_t>(store_->page_positions());
  const size_t first = static_cast<size_t>(length_) / positions;
  const size_t n_pages = (static_cast<size_t>(end) + positions - 1) / positions;
  if (n_pages > pages_.capacity()) {
    // An exact reserve() would copy the table at every page; a thousand steps from an empty one allocate once.
    const size_t capacity = std::max({n_pages, 2 * pages_.capacity(), kFirstPages});
    addresses_.reserve(capacity);
    pages_.reserve(capacity);
  }
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

void PageTable::rewind(int64_t length) {
  length_ = std::min(length_, length);
  const int64_t positions = store_->page_positions();
  drop_pages(static_cast<size_t>((length_ + positions - 1) / positions));
}

void PageTable::fork_from(const PageTable& other) {
  drop_pages(0);
  pages_ = other.pages_;
  addresses_ = other.addresses_;
  length_ = other.length_;
  for (Page* page : pages_) PageStore::share(page);
}

void PageTable::drop_pages(size_t keep) {
  while (pages_.size() > keep) {
    store_->release(pages_.back());
    pages_.pop_back();
    addresses_.pop_back();
  }
}

void PageTable::set_page(size_t i, Page* page) {
  pages_[i] = page;
  addresses_[i] = page->data;
}

}  // namespace kvik::kv
