#include "engine/draft.h"

#include <algorithm>

namespace kvik::engine {

DraftProposer::DraftProposer(const std::shared_ptr<Decoder>& decoder, int context, bool reuse_prefixes)
    : stream_(Sequence(decoder, context), nullptr) {
  if (reuse_prefixes) stream_.branches.front().reuse_prefixes();
}

// The next generation of the same conversation starts behind it.
DraftProposer::~DraftProposer() {
  try {
    stream_.branches.front().share_prefix(true);
  } catch (...) {}
}

std::optional<Evidence> DraftProposer::match(std::span<const TokenId> tokens) {
  const Sequence& sequence = stream_.branches.front();
  const std::vector<TokenId>& unsupported = sequence.backend().traits().unsupported_tokens;
  for (; n_checked_ < tokens.size() && !unsupported.empty(); ++n_checked_)
    off_ |= std::ranges::find(unsupported, tokens[n_checked_]) != unsupported.end();
  off_ |= sequence.capacity() > 0 && tokens.size() > static_cast<size_t>(sequence.capacity());
  return off_ ? std::nullopt : std::optional(Evidence::kDraft);
}

// The prompt is not counted in the cost of a proposal.
void DraftProposer::begin(std::span<const TokenId> tokens) {
  if (match(tokens)) follow(tokens);
}

void DraftProposer::propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) {
  if (!follow(tokens)) return;
  Sequence& sequence = stream_.branches.front();
  while (proposed.size() < n) {
    const std::span<const float> logits = sequence.known_logits();
    proposed.push_back(static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin()));
    if (proposed.size() == n || !sequence.has_room_for(1)) return;
    const std::vector<TokenId>& unsupported = sequence.backend().traits().unsupported_tokens;
    if (std::ranges::find(unsupported, proposed.back()) != unsupported.end()) return;
    sequence.push(proposed.back());
    if (!compute()) return;
  }
}

// Computes what the sequence has beyond the tokens that it shares with the last proposals.
bool DraftProposer::follow(std::span<const TokenId> tokens) {
  Sequence& sequence = stream_.branches.front();
  const std::span<const TokenId> held = sequence.tokens();
  const auto n_same = static_cast<size_t>(std::ranges::mismatch(held, tokens).in1 - held.begin());
  sequence.truncate(static_cast<int>(std::min(n_same, tokens.size() - 1)));
  const bool is_new = sequence.length() == 0;
  if (is_new) sequence.reserve(tokens.size() + 1);
  for (size_t i = static_cast<size_t>(sequence.length()); i < tokens.size(); ++i) sequence.push(tokens[i]);
  if (is_new) sequence.use_known_prefix();
  return compute();
}

bool DraftProposer::compute() {
  Sequence& sequence = stream_.branches.front();
  Stream* const alone[] = {&stream_};
  while (!sequence.pending().empty()) {
    if (sequence.decoder().step(alone) == StepStatus::kNoMemory) {
      sequence.drop_pending();
      return false;
    }
  }
  return true;
}

}  // namespace kvik::engine
