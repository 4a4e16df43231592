#include "engine/lookup.h"

#include <algorithm>
#include <bit>

namespace kvik::engine {
namespace {

constexpr size_t kShortest = 2;      // tokens of a match
constexpr size_t kLongest = 32;      // longer matches count as this long
constexpr int kMostTried = 16;       // earlier places that one search compares
constexpr size_t kFoundTokens = 32;  // of another session, per search
constexpr size_t kShortestWait = 8;  // between two searches for another session, in tokens; doubles without success
constexpr size_t kLongestWait = 256;

size_t match_length(std::span<const TokenId> tokens, size_t end) {
  const size_t most = std::min(end, kLongest);
  size_t n = 0;
  while (n < most && tokens[end - 1 - n] == tokens[tokens.size() - 1 - n]) ++n;
  return n;
}

}  // namespace

LookupProposer::LookupProposer(std::shared_ptr<backend::Backend> backend, size_t max_length)
    : backend_(std::move(backend)), wait_(kShortestWait) {
  constexpr size_t kMostReserved = size_t{1} << 20;
  const size_t n_expected = std::min(max_length, kMostReserved);
  newest_.assign(std::bit_ceil(std::max<size_t>(1024, n_expected)), 0);
  earlier_.reserve(n_expected + 1);
  found_.reserve(kFoundTokens);
  matches_.reserve(kMostTried);
}

size_t LookupProposer::bucket_of(std::span<const TokenId> tokens, size_t end) const {
  const uint64_t pair = (static_cast<uint64_t>(static_cast<uint32_t>(tokens[end - 2])) << 32) | static_cast<uint32_t>(tokens[end - 1]);
  return static_cast<size_t>((pair * 0x9e3779b97f4a7c15u) >> 32) & (newest_.size() - 1);
}

// All pairs but the last, which the search begins with.
void LookupProposer::index(std::span<const TokenId> tokens) {
  while (earlier_.size() < std::min(kShortest, tokens.size())) earlier_.push_back(0);
  for (size_t end = earlier_.size(); end < tokens.size(); ++end) {
    int32_t& newest = newest_[bucket_of(tokens, end)];
    earlier_.push_back(newest);
    newest = static_cast<int32_t>(end);
  }
}

bool LookupProposer::match_other_session(std::span<const TokenId> tokens) {
  if (backend_ == nullptr) return false;
  const bool had_found = !found_.empty();
  while (n_followed_ < found_.size() && found_at_ + n_followed_ < tokens.size() && found_[n_followed_] == tokens[found_at_ + n_followed_])
    ++n_followed_;
  if (had_found && found_at_ + n_followed_ == tokens.size() && n_followed_ < found_.size()) return true;
  if (had_found) {  // it went another way, or further than what was found
    const bool to_the_end = n_followed_ == found_.size();
    found_.clear();
    wait_ = to_the_end ? 1 : wait_;
    next_try_ = tokens.size() + (to_the_end ? 0 : wait_);
  }
  if (tokens.size() < next_try_) return false;
  backend_->find_continuation(tokens, kFoundTokens, found_);
  found_at_ = tokens.size();
  n_followed_ = 0;
  if (!found_.empty()) {
    wait_ = kShortestWait;
    return true;
  }
  next_try_ = tokens.size() + wait_;
  wait_ = std::min(2 * wait_, kLongestWait);
  return false;
}

std::optional<Evidence> LookupProposer::match(std::span<const TokenId> tokens) {
  if (match_other_session(tokens)) return Evidence::kOtherSession;
  if (tokens.size() <= kShortest) return std::nullopt;
  index(tokens);
  matches_.clear();
  size_t best = 0;
  int n_tried = 0;
  for (auto end = static_cast<size_t>(newest_[bucket_of(tokens, tokens.size())]); end > 0 && n_tried < kMostTried; ++n_tried) {
    const size_t n = match_length(tokens, end);
    matches_.push_back({end, n});
    if (n > best) {
      best = n;
      source_ = end;
    }
    if (n == kLongest) break;
    end = static_cast<size_t>(earlier_[end]);
  }
  if (best < kShortest) return std::nullopt;
  if (best < 4) return Evidence::kShortMatch;
  return best < 12 ? Evidence::kMatch : Evidence::kLongMatch;
}

void LookupProposer::propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) {
  if (!found_.empty()) {
    const size_t n_left = std::min(n, found_.size() - n_followed_);
    for (size_t i = 0; i < n_left; ++i) proposed.push_back(found_[n_followed_ + i]);
    return;
  }
  // A match that reaches into the end of the sequence repeats it.
  const size_t period = tokens.size() - source_;
  for (size_t i = 0; i < n; ++i) proposed.push_back(tokens[source_ + i % period]);
}

std::optional<size_t> LookupProposer::propose_other(std::span<const TokenId> tokens, size_t n, std::span<const TokenId> proposed,
                                                    std::vector<TokenId>& other) {
  if (!found_.empty()) return std::nullopt;
  size_t best = 0, best_end = 0, branch = 0;
  for (const Match& match : matches_) {
    if (match.n_tokens < kShortest || match.n_tokens <= best) continue;
    const std::span<const TokenId> next = tokens.subspan(match.end);
    const auto n_same = static_cast<size_t>(std::ranges::mismatch(next, proposed).in1 - next.begin());
    if (n_same == next.size() || n_same == proposed.size()) continue;
    best = match.n_tokens;
    best_end = match.end;
    branch = n_same;
  }
  if (best == 0) return std::nullopt;
  const std::span<const TokenId> next = tokens.subspan(best_end + branch);
  other.insert(other.end(), next.begin(), next.begin() + static_cast<ptrdiff_t>(std::min(n, next.size())));
  return branch;
}

}  // namespace kvik::engine
