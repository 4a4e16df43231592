#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "backend/backend.h"
#include "backend/native/execute/execute.h"
#include "backend/native/native_cache.h"
#include "base/thread_pool.h"
#include "kv/prefix_tree.h"

namespace kvik::native {

// The pages of a decoder's caches, within a budget, with prefix lookup by tokens. Any thread.
class CachePages {
 public:
  // Limit for pages that no session uses, if the model has no budget.
  static constexpr size_t kIdleBytes = size_t{512} << 20;

  CachePages() = default;
  CachePages(const kv::PageShape& shape, std::shared_ptr<kv::Budget> budget, std::shared_ptr<kv::PageMemory> memory);

  const std::shared_ptr<kv::PageStore>& store() const { return store_; }

  // Evicts pages until sequences can have these numbers of positions. False if that is not possible.
  bool make_room(std::span<backend::Cache* const> caches, std::span<const int64_t> ends);
  bool make_room(int64_t n_positions) { return tree_->make_room(store_->shape().n_pages(n_positions)); }

  // Makes the positions of sequences below these ends writable. Pages of the host's memory are copied on all threads of the pool. One call
  // at a time.
  void prepare(std::span<backend::Cache* const> caches, std::span<const int64_t> ends, const Runner& runner, ThreadPool& pool);

  void find(const TokenView& tokens, backend::NativeCache& cache);
  void share(backend::NativeCache& cache, const TokenView& tokens, bool whole);
  int pin(std::span<const TokenId> tokens) { return static_cast<int>(tree_->pin(tokens)); }
  void continuation(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& found) { tree_->continuation(tokens, n, found); }
  backend::CacheMemory memory() const;

 private:
  void copy_pages(const Runner& runner, ThreadPool& pool);

  std::shared_ptr<kv::Budget> budget_;
  std::shared_ptr<kv::PageStore> store_;
  std::unique_ptr<kv::PrefixTree> tree_;
  std::unique_ptr<std::atomic<int64_t>> n_reused_;
  std::vector<kv::PageCopy> copies_;  // of the current call
};

}  // namespace kvik::native
