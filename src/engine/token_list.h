#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/token_view.h"

namespace kvik::engine {

// The tokens of a sequence. A copy shares them: the one that goes on first continues in the same memory, the others keep what follows in a
// short list of their own, until someone asks for all tokens in one piece. Used by one thread at a time, reads included; copies are
// independent of each other.
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
  // In one piece, valid until the list changes. Joins the two parts, once, if there are two.
  std::span<const TokenId> all() const;
  std::span<const TokenId> from(size_t first) const;  // the same; tokens since the last copy need not be joined

  void push(TokenId token);
  void shorten(size_t n);  // to n tokens, at most size()
  void reserve(size_t n);  // room for n tokens in all without another allocation

 private:
  // Owners use a beginning of it each; what is beyond n_used is nobody's. The count of owners is its own and not a shared_ptr's, because
  // the last owner must see that the others have finished reading before it writes what they have read.
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
