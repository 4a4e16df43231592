#include "engine/token_list.h"

#include <utility>

namespace kvik::engine {

TokenList::TokenList(const TokenList& other) {
  if (other.own_.size() > kMostOwn) other.join(other.size() + kTokensAhead);
  buffer_ = other.buffer_;
  n_shared_ = other.n_shared_;
  own_ = other.own_;
  if (buffer_ != nullptr) buffer_->n_owners.fetch_add(1, std::memory_order_relaxed);
}

TokenList::TokenList(TokenList&& other) noexcept
    : buffer_(std::exchange(other.buffer_, nullptr)), n_shared_(std::exchange(other.n_shared_, 0)), own_(std::move(other.own_)) {
  other.own_.clear();
}

TokenList& TokenList::operator=(TokenList other) noexcept {
  std::swap(buffer_, other.buffer_);
  std::swap(n_shared_, other.n_shared_);
  std::swap(own_, other.own_);
  return *this;
}

void TokenList::release() const {
  if (buffer_ != nullptr && buffer_->n_owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete buffer_;
  buffer_ = nullptr;
}

TokenView TokenList::view() const {
  if (buffer_ == nullptr) return std::span<const TokenId>(own_);
  return {{buffer_->tokens.get(), n_shared_}, own_};
}

std::span<const TokenId> TokenList::all() const { return from(0); }

std::span<const TokenId> TokenList::from(size_t first) const {
  if (first >= n_shared_) return std::span<const TokenId>(own_).subspan(first - n_shared_);
  if (!own_.empty()) join(n_shared_ + std::max(own_.capacity(), own_.size() + kTokensAhead));
  return std::span<const TokenId>(buffer_->tokens.get(), n_shared_).subspan(first);
}

void TokenList::join(size_t capacity) const {
  auto joined = std::make_unique<Buffer>(capacity);
  if (buffer_ != nullptr) std::copy_n(buffer_->tokens.get(), n_shared_, joined->tokens.get());
  std::ranges::copy(own_, joined->tokens.get() + n_shared_);
  const size_t n = size();
  joined->n_used.store(n, std::memory_order_relaxed);
  release();
  buffer_ = joined.release();
  n_shared_ = n;
  own_ = {};
}

// False if another list continues the buffer, or if it is full.
bool TokenList::push_shared(TokenId token) {
  if (!own_.empty() || buffer_ == nullptr || n_shared_ == buffer_->capacity) return false;
  size_t n_used = n_shared_;
  if (!buffer_->n_used.compare_exchange_strong(n_used, n_shared_ + 1, std::memory_order_relaxed)) {
    if (!is_only_owner()) return false;
    buffer_->n_used.store(n_shared_ + 1, std::memory_order_relaxed);
  }
  buffer_->tokens[n_shared_++] = token;
  return true;
}

void TokenList::push(TokenId token) {
  if (push_shared(token)) return;
  if (own_.empty() && (buffer_ == nullptr || is_only_owner())) {
    join(2 * n_shared_ + kTokensAhead);
    push_shared(token);
    return;
  }
  if (own_.size() == own_.capacity()) own_.reserve(std::max(kFirstOwn, 2 * own_.size()));
  own_.push_back(token);
}

void TokenList::shorten(size_t n) {
  own_.resize(n - std::min(n, n_shared_));
  n_shared_ = std::min(n, n_shared_);
}

void TokenList::reserve(size_t n) {
  if (n <= n_shared_) return;
  const bool continues_buffer = own_.empty() && (buffer_ == nullptr || is_only_owner());
  if (!continues_buffer) {
    own_.reserve(n - n_shared_);
  } else if (buffer_ == nullptr || n > buffer_->capacity) {
    join(n);
  }
}

}  // namespace kvik::engine
