#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/token_view.h"

namespace kvik::engine {

// The tokens of a sequence. Copies share memory: the first copy that grows appends in place, the others append to a short list of their
// own, until all tokens are read as one span. Used by one thread at a time, even for reading; copies are independent of each other.
class TokenList {
 public:
  TokenList() = default;
  TokenList(const TokenList& other);
  TokenList(TokenList&& other) noexcept;
  TokenList& operator=(TokenList other) noexcept;
  ~TokenList() { release(); }

  size_t size() const { return n_shared_ + own_.size(); }
  bool empty() const { return size() == 0; }
  TokenView view() const;
  // As one span, valid until the list changes. If there are two parts, they are joined first.
  std::span<const TokenId> all() const;
  std::span<const TokenId> from(size_t first) const;  // the same; tokens since the last copy need not be joined

  void push(TokenId token);
  void shorten(size_t n);  // to n tokens, at most size()
  void reserve(size_t n);  // room for n tokens in all without another allocation

 private:
  // Each owner uses a prefix of the buffer; nothing beyond n_used is in use. It does not use shared_ptr, because the last owner must know
  // that the others have finished reading (an acquire load) before it overwrites what they have read.
  struct Buffer {
    explicit Buffer(size_t n) : tokens(std::make_unique_for_overwrite<TokenId[]>(n)), capacity(n) {}
    const std::unique_ptr<TokenId[]> tokens;
    const size_t capacity;
    std::atomic<int> n_owners{1};
    std::atomic<size_t> n_used{0};
  };

  static constexpr size_t kTokensAhead = 1024;  // so that a thousand steps allocate once
  static constexpr size_t kFirstOwn = 256;
  static constexpr size_t kMostOwn = 1024;  // that a copy copies

  bool is_only_owner() const { return buffer_->n_owners.load(std::memory_order_acquire) == 1; }
  bool push_shared(TokenId token);
  void join(size_t capacity) const;  // all tokens into a buffer of its own
  void release() const;

  // Reading joins the parts, which changes no token.
  mutable Buffer* buffer_ = nullptr;
  mutable size_t n_shared_ = 0;       // tokens that are in the buffer
  mutable std::vector<TokenId> own_;  // after those
};

}  // namespace kvik::engine
