#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "sample/sampler.h"

namespace kvik::engine {

// The threads that choose tokens, and their workspaces. Which thread does what changes no result.
class Workers {
 public:
  // `pool`: null for the calling thread alone; outlives this.
  Workers(ThreadPool* pool, size_t vocab) : pool_(pool), vocab_(vocab) {}

  // A workspace for exclusive use, until this object is destroyed.
  class Lease {
   public:
    explicit Lease(Workers& workers) : workers_(workers), workspace_(workers.take()) {}
    ~Lease() { workers_.give_back(std::move(workspace_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    sample::Workspace& operator*() const { return *workspace_; }
    sample::Workspace* operator->() const { return workspace_.get(); }

   private:
    Workers& workers_;
    std::unique_ptr<sample::Workspace> workspace_;
  };

  // fn(i) for i in [0, n), which are independent of each other and read n_logits logits in all; on all threads if that pays. A call inside
  // of fn stays on its thread.
  template <class Fn>
  void for_each(size_t n, size_t n_logits, Fn fn) {
    if (n < 2 || n_logits < kWorthSharing || pool_ == nullptr || pool_->n_threads() == 1) {
      for (size_t i = 0; i < n; ++i) fn(i);
      return;
    }
    prepare();
    pool_->for_each(static_cast<int64_t>(n), [&](int64_t i) { fn(static_cast<size_t>(i)); });
  }

 private:
  static constexpr size_t kWorthSharing = 32 << 10;  // logits: 5 us for the largest of each row, 20 times as much for log-probabilities

  void prepare();  // a workspace for each thread, so that later steps allocate nothing
  std::unique_ptr<sample::Workspace> take();
  void give_back(std::unique_ptr<sample::Workspace> workspace);

  ThreadPool* pool_;
  size_t vocab_;
  bool is_prepared_ = false;
  std::mutex mutex_;  // for what follows
  std::vector<std::unique_ptr<sample::Workspace>> idle_;
};

}  // namespace kvik::engine
