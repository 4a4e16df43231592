#include "kv/pages.h"

#include <algorithm>
#include <fmt/format.h>

#include "kvik/options.h"

namespace kvik::kv {

struct PageBlock {
  std::unique_ptr<MemoryBlock> memory;
  std::unique_ptr<Page[]> pages;
  std::unique_ptr<TokenId[]> tokens;
  Page* first_free = nullptr;
  size_t n_pages = 0;
  size_t n_free = 0;
};

namespace {

// How much is allocated at once, and how much is kept when it is free. The largest block is at most the reserve, so that a block more or
// less does not matter. Memory of a device takes longer to allocate than a prompt should, and nobody else needs it.
struct BlockSizes {
  size_t first, largest, reserve;
};
constexpr BlockSizes kHostBlocks{size_t{1} << 20, size_t{16} << 20, PageStore::kReserveBytes};
constexpr BlockSizes kDeviceBlocks{size_t{16} << 20, size_t{256} << 20, size_t{1} << 30};

const BlockSizes& sizes_in(const PageMemory& memory) { return memory.is_host() ? kHostBlocks : kDeviceBlocks; }

void push_free(PageBlock& block, Page& page) {
  page.next_free = block.first_free;
  block.first_free = &page;
  ++block.n_free;
}

}  // namespace

Error no_memory(size_t limit_bytes) { return Error(Code::kTooLarge, fmt::format("{} (it is {} bytes)", kNoMemoryMessage, limit_bytes)); }

size_t Budget::left_bytes() const {
  const size_t limit = limit_bytes();
  if (limit == 0) return SIZE_MAX;
  const size_t allocated = allocated_bytes();
  return allocated < limit ? limit - allocated : 0;
}

bool Budget::take(size_t bytes) {
  const size_t limit = limit_bytes();
  size_t allocated = allocated_bytes();
  do {
    if (limit > 0 && (bytes > limit || allocated > limit - bytes)) return false;
  } while (!allocated_bytes_.compare_exchange_weak(allocated, allocated + bytes, std::memory_order_relaxed));
  return true;
}

void Budget::add(PageStore& store) {
  const std::lock_guard lock(mutex_);
  stores_.push_back(&store);
}

void Budget::remove(const PageStore& store) {
  const std::lock_guard lock(mutex_);
  std::erase(stores_, &store);
}

void Budget::free_reserves(const PageStore& but) {
  const std::lock_guard lock(mutex_);
  for (PageStore* store : stores_) {
    if (store != &but) store->free_reserve();
  }
}

PageStore::PageStore(const PageShape& shape, std::shared_ptr<Budget> budget, std::shared_ptr<PageMemory> memory)
    : shape_(shape),
      budget_(budget != nullptr ? std::move(budget) : std::make_shared<Budget>()),
      memory_(memory != nullptr ? std::move(memory) : std::make_shared<HostMemory>()) {
  budget_->add(*this);
}
PageStore::~PageStore() {
  budget_->remove(*this);
  budget_->give_back(n_pages_ * shape_.bytes());
}

bool PageStore::can_take(size_t n_pages) const {
  const std::lock_guard lock(mutex_);
  const auto fits = [&] { return n_pages <= n_free_ || n_pages - n_free_ <= budget_->left_bytes() / shape_.bytes(); };
  if (fits()) return true;
  budget_->free_reserves(*this);
  return fits();
}

// Tried only: two stores that ask each other must not wait for each other.
void PageStore::free_reserve() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) free_unused_blocks(0);
}

size_t PageStore::n_pages() const {
  const std::lock_guard lock(mutex_);
  return n_pages_;
}

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
  const size_t page_bytes = shape_.bytes();
  const BlockSizes& sizes = sizes_in(*memory_);
  if (budget_->left_bytes() < page_bytes) budget_->free_reserves(*this);
  block->n_pages = std::max<size_t>(1, std::clamp(n_pages_ * page_bytes / 4, sizes.first, sizes.largest) / page_bytes);
  block->n_pages = std::max<size_t>(1, std::min(block->n_pages, budget_->left_bytes() / page_bytes));
  const size_t bytes = block->n_pages * page_bytes;
  if (!budget_->take(bytes)) { throw no_memory(budget_->limit_bytes()); }
  try {
    const auto positions = static_cast<size_t>(shape_.positions());
    block->memory = memory_->allocate(bytes);
    block->pages = std::make_unique<Page[]>(block->n_pages);
    block->tokens = std::make_unique<TokenId[]>(block->n_pages * positions);
    for (size_t i = block->n_pages; i-- > 0;) {
      block->pages[i].data = block->memory->address() + i * page_bytes;
      block->pages[i].tokens = block->tokens.get() + i * positions;
      block->pages[i].block = block.get();
      push_free(*block, block->pages[i]);
    }
    blocks_.push_back(std::move(block));
  } catch (...) {
    budget_->give_back(bytes);
    throw;
  }
  n_pages_ += blocks_.back()->n_pages;
  n_free_ += blocks_.back()->n_pages;
  return *blocks_.back();
}

void PageStore::release(Page* page) {
  if (page->n_references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::lock_guard lock(mutex_);
  push_free(*page->block, *page);
  ++n_free_;
  if (page->block->n_free != page->block->n_pages) return;
  free_unused_blocks(std::max(sizes_in(*memory_).reserve / shape_.bytes(), kReservePages) + (n_pages_ - n_free_) / 4);
}

void PageStore::free_unused_blocks(size_t n_reserve) {
  for (size_t i = blocks_.size(); i-- > 0 && n_free_ > n_reserve;) {
    const size_t n_pages = blocks_[i]->n_pages;
    if (blocks_[i]->n_free != n_pages || n_free_ - n_pages < n_reserve) continue;
    n_pages_ -= n_pages;
    n_free_ -= n_pages;
    budget_->give_back(n_pages * shape_.bytes());
    blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(i));
  }
}

size_t PageStore::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return n_pages_ * shape_.bytes();
}

size_t PageStore::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return (n_pages_ - n_free_) * shape_.bytes();
}

}  // namespace kvik::kv
