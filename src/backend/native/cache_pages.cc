#include "backend/native/cache_pages.h"

#include <algorithm>

namespace kvik::native {

using backend::NativeCache;

CachePages::CachePages(const kv::PageShape& shape, std::shared_ptr<kv::Budget> budget, std::shared_ptr<kv::PageMemory> memory)
    : budget_(std::move(budget)),
      store_(std::make_shared<kv::PageStore>(shape, budget_, std::move(memory))),
      n_reused_(std::make_unique<std::atomic<int64_t>>(0)) {
  const size_t most = budget_->limit_bytes() > 0 ? budget_->limit_bytes() : kIdleBytes;
  tree_ = std::make_unique<kv::PrefixTree>(*store_, std::max<size_t>(1, most / shape.bytes()));
}

bool CachePages::make_room(std::span<backend::Cache* const> caches, std::span<const int64_t> ends) {
  const auto n_needed = [&] {
    size_t n = 0;
    for (size_t i = 0; i < caches.size(); ++i) n += static_cast<NativeCache&>(*caches[i]).pages.n_needed(ends[i]);
    return n;
  };
  if (tree_->make_room(n_needed())) return true;
  // A last page that only the tree shares would be copied; without the tree it can be continued where it is.
  for (backend::Cache* cache : caches) tree_->forget_last(static_cast<NativeCache&>(*cache).pages);
  return tree_->make_room(n_needed());
}

// Beams share pages and continue differently, so that many pages are copied in one call, each as far as it is used.
void CachePages::prepare(std::span<backend::Cache* const> caches, std::span<const int64_t> ends, const Runner& runner, ThreadPool& pool) {
  const bool on_host = store_->memory().is_host();
  copies_.clear();
  try {
    for (size_t s = 0; s < caches.size(); ++s) {
      kv::PageTable& pages = static_cast<NativeCache&>(*caches[s]).pages;
      on_host ? pages.prepare(ends[s], copies_) : pages.prepare(ends[s]);
    }
  } catch (...) {
    copy_pages(runner, pool);
    throw;
  }
  copy_pages(runner, pool);
}

void CachePages::copy_pages(const Runner& runner, ThreadPool& pool) {
  const kv::PageShape& shape = store_->shape();
  pool.for_each(static_cast<int64_t>(copies_.size()), [&](int64_t i) {
    const kv::PageCopy& copy = copies_[static_cast<size_t>(i)];
    for (int first = 0, panel = 0; first < copy.n_positions; first += shape.panel_positions, ++panel) {
      const size_t offset = static_cast<size_t>(panel) * shape.panel_bytes;
      runner.copy_positions(copy.from->data + offset, copy.to->data + offset, std::min(copy.n_positions - first, shape.panel_positions));
    }
  });
  for (const kv::PageCopy& copy : copies_) kv::PageTable::finish(*store_, copy);
}

void CachePages::find(const TokenView& tokens, NativeCache& cache) {
  tree_->find(tokens, cache.pages);
  cache.n_shared_pages = static_cast<size_t>(cache.pages.length() / store_->shape().positions());
  n_reused_->fetch_add(cache.pages.length(), std::memory_order_relaxed);
}

void CachePages::share(NativeCache& cache, const TokenView& tokens, bool whole) {
  const size_t n_full = tokens.size() / static_cast<size_t>(store_->shape().positions());
  if (n_full <= cache.n_shared_pages && !whole) return;
  tree_->add(tokens, cache.pages, cache.n_shared_pages, whole);
  cache.n_shared_pages = n_full;
}

backend::CacheMemory CachePages::memory() const {
  return {.used_bytes = store_->used_bytes(),
          .idle_bytes = tree_->idle_bytes(),
          .allocated_bytes = budget_->allocated_bytes(),
          .limit_bytes = budget_->limit_bytes(),
          .reused_positions = n_reused_->load(std::memory_order_relaxed),
          .evicted_positions = tree_->n_evicted()};
}

}  // namespace kvik::native
