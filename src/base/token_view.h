#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/token.h"

namespace kvik {

// Tokens that are kept in two parts, one after the other; a list in one part converts to it. Valid as long as both parts are.
class TokenView {
 public:
  TokenView(std::span<const TokenId> tokens, std::span<const TokenId> then = {}) : parts_{tokens, then} {}
  TokenView(const std::vector<TokenId>& tokens) : TokenView(std::span(tokens)) {}

  size_t size() const { return parts_[0].size() + parts_[1].size(); }
  bool empty() const { return size() == 0; }

  TokenView first(size_t n) const {
    const size_t n_first = std::min(n, parts_[0].size());
    return {parts_[0].first(n_first), parts_[1].first(n - n_first)};
  }

  // Tokens [from, from + n), or as many of them as there are; `copy` is used if they are in both parts.
  std::span<const TokenId> slice(size_t from, size_t n, std::vector<TokenId>& copy) const {
    const size_t n_first = parts_[0].size();
    n = std::min(n, size() - from);
    if (from >= n_first) return parts_[1].subspan(from - n_first, n);
    if (from + n <= n_first) return parts_[0].subspan(from, n);
    copy.assign(parts_[0].begin() + static_cast<ptrdiff_t>(from), parts_[0].end());
    copy.insert(copy.end(), parts_[1].begin(), parts_[1].begin() + static_cast<ptrdiff_t>(from + n - n_first));
    return copy;
  }

 private:
  std::span<const TokenId> parts_[2];
};

}  // namespace kvik
