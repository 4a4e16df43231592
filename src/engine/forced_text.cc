#include "engine/forced_text.h"

#include <algorithm>

namespace kvik::engine {
namespace {

constexpr size_t kMostBytes = 64;   // of forced text; a run computes about 15 tokens ahead
constexpr size_t kFewestBytes = 2;  // one byte is one token, whose run is needed for the next choice

}  // namespace

ForcedTextProposer::ForcedTextProposer(std::shared_ptr<constrain::TokenConstraint> constraint, Encode encode)
    : constraint_(std::move(constraint)), matcher_(constraint_), encode_(std::move(encode)) {}

bool ForcedTextProposer::begin(std::span<const TokenId> tokens, const Watch&) {
  n_seen_ = tokens.size();
  return true;
}

bool ForcedTextProposer::follow(std::span<const TokenId> tokens) {
  if (off_ || tokens.size() < n_seen_) return false;
  // End tokens and stop tokens are not part of the constrained text.
  for (; n_seen_ < tokens.size(); ++n_seen_) {
    if (!matcher_.accept(tokens[n_seen_])) return !(off_ = true);
  }
  return true;
}

// The tokens of a text depend on what is around it. So it is encoded behind the last token; its own last token is left out if the text goes
// on, because it may be the beginning of a longer one.
void ForcedTextProposer::find_forced(TokenId last) {
  forced_.clear();
  const std::string text = matcher_.forced_text(kMostBytes);
  if (text.size() < kFewestBytes) return;
  const std::string before(constraint_->vocabulary().later->bytes(last));
  const std::vector<TokenId> ids = encode_(before + text);
  const auto own = std::ranges::find(ids, last);
  if (own != ids.end() && own - ids.begin() <= 1 && take({own + 1, ids.end()}, text)) return;
  take(encode_(text), text);
}

// False if the tokens do not decode to the text.
bool ForcedTextProposer::take(std::span<const TokenId> ids, std::string_view text) {
  constrain::Matcher matcher = matcher_;
  size_t n_bytes = 0;
  for (const TokenId id : ids) {
    if (!matcher.accept(id)) break;
    n_bytes += constraint_->vocabulary().later->bytes(id).size();
    if (n_bytes > text.size() || (n_bytes == text.size() && !matcher.must_end())) break;
    forced_.push_back(id);
  }
  return !forced_.empty();
}

std::optional<Evidence> ForcedTextProposer::match(std::span<const TokenId> tokens) {
  if (!follow(tokens) || tokens.empty()) return std::nullopt;
  find_forced(tokens.back());
  return forced_.empty() ? std::nullopt : std::optional(Evidence::kForced);
}

void ForcedTextProposer::propose(std::span<const TokenId>, size_t n, std::vector<TokenId>& proposed) {
  proposed.insert(proposed.end(), forced_.begin(), forced_.begin() + static_cast<std::ptrdiff_t>(std::min(n, forced_.size())));
}

}  // namespace kvik::engine
