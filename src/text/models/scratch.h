#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/token.h"
#include "text/models/word_cache.h"
#include "text/regex/regex.h"
#include "text/unicode/growth_limit.h"

namespace kvik::text {

// The best path to a position of a text.
struct BestPath {
  double score;
  int32_t begin;  // of the last piece; -1 if no piece ends here
  TokenId id;
};

// A symbol of a word during merging, in a linked list.
struct MergeSymbol {
  TokenId id;
  int32_t previous;
  int32_t next;
  uint32_t size;  // bytes of text; 0 if it was merged into another
};

struct MergeCandidate {
  uint64_t order;  // rank, then position
  TokenId left, right;
};

// Buffers that encoding keeps between calls, so that it allocates little. Belongs to one thread at a time.
struct Scratch {
  RegexScratch regex;
  GrowthLimit growth;
  WordCache words;
  std::string normalized;
  std::string spare;
  std::vector<std::string> steps;  // one per pre-tokenizer
  std::vector<TokenId> ids;
  std::vector<BestPath> paths;
  std::vector<MergeSymbol> symbols;
  std::vector<MergeCandidate> candidates;
  std::vector<uint32_t> ranks;

  // Frees what an unusually long text needed.
  void free_large_buffers() {
    const auto shrink = [](auto& buffer) {
      if (buffer.capacity() * sizeof(*buffer.data()) > kMaxKeptBytes) std::remove_reference_t<decltype(buffer)>().swap(buffer);
    };
    shrink(normalized);
    shrink(spare);
    for (std::string& step : steps) shrink(step);
    shrink(ids);
    shrink(paths);
    shrink(symbols);
    shrink(candidates);
    shrink(ranks);
  }

 private:
  static constexpr size_t kMaxKeptBytes = size_t{1} << 20;  // per buffer
};

// Any thread may borrow; the destructor of a lease returns it.
class ScratchPool {
 public:
  class Lease {
   public:
    Lease(ScratchPool& pool, std::unique_ptr<Scratch> scratch) : pool_(pool), scratch_(std::move(scratch)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { pool_.put_back(std::move(scratch_)); }
    Scratch& operator*() const { return *scratch_; }
    Scratch* operator->() const { return scratch_.get(); }

   private:
    ScratchPool& pool_;
    std::unique_ptr<Scratch> scratch_;
  };

  Lease borrow() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Scratch> scratch = std::move(idle_.back());
        idle_.pop_back();
        return {*this, std::move(scratch)};
      }
    }
    return {*this, std::make_unique<Scratch>()};
  }

 private:
  void put_back(std::unique_ptr<Scratch> scratch) {
    scratch->free_large_buffers();
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(scratch));
  }

  static constexpr size_t kMaxIdle = 16;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace kvik::text
