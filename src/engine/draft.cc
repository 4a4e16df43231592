#include "engine/draft.h"

#include <algorithm>

namespace kvik::engine {

DraftProposer::DraftProposer(const std::shared_ptr<Decoder>& decoder, int context, int vocab, bool reuse_prefixes)
    : stream_(Sequence(decoder, context), nullptr), vocab_(static_cast<size_t>(std::min(vocab, decoder->backend().traits().vocab))) {
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
  for (; n_checked_ < tokens.size(); ++n_checked_) off_ |= !sequence.backend().traits().can_run(tokens[n_checked_]);
  off_ |= sequence.capacity() > 0 && tokens.size() > static_cast<size_t>(sequence.capacity());
  return off_ ? std::nullopt : std::optional(Evidence::kDraft);
}

// The prompt is not counted in the cost of a proposal.
bool DraftProposer::begin(std::span<const TokenId> tokens, const Watch& watch) {
  return !match(tokens) || follow(tokens, watch) != AppendStatus::kCancelled;
}

void DraftProposer::propose(std::span<const TokenId> tokens, size_t n, std::vector<TokenId>& proposed) {
  if (follow(tokens) != AppendStatus::kDone) return;
  Sequence& sequence = stream_.branches.front();
  while (proposed.size() < n) {
    const std::span<const float> logits = sequence.known_logits().first(vocab_);
    proposed.push_back(static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin()));
    if (proposed.size() == n || !sequence.has_room_for(1)) return;
    if (!sequence.backend().traits().can_run(proposed.back())) return;
    sequence.push(proposed.back());
    if (compute() != AppendStatus::kDone) return;
  }
}

// The last token is recomputed if necessary: its logits give the first proposal.
size_t DraftProposer::n_held(std::span<const TokenId> tokens) const {
  const std::span<const TokenId> held = stream_.branches.front().tokens();
  const auto n_same = static_cast<size_t>(std::ranges::mismatch(held, tokens).in1 - held.begin());
  return std::min(n_same, tokens.size() - 1);
}

// Computes what the sequence has beyond the tokens that it shares with the last proposals.
AppendStatus DraftProposer::follow(std::span<const TokenId> tokens, const Watch& watch) {
  Sequence& sequence = stream_.branches.front();
  sequence.truncate(static_cast<int>(n_held(tokens)));
  const bool is_new = sequence.length() == 0;
  if (is_new) sequence.reserve(tokens.size() + 1);
  for (size_t i = static_cast<size_t>(sequence.length()); i < tokens.size(); ++i) sequence.push(tokens[i]);
  if (is_new) sequence.use_known_prefix();
  return compute(watch);
}

AppendStatus DraftProposer::compute(const Watch& watch) {
  Sequence& sequence = stream_.branches.front();
  Stream* const alone[] = {&stream_};
  while (sequence.n_pending() > 0) {
    const bool cancelled = watch.cancelled && watch.cancelled();
    if (cancelled || sequence.decoder().step(alone) == StepStatus::kNoMemory) {
      sequence.drop_pending();
      return cancelled ? AppendStatus::kCancelled : AppendStatus::kNoMemory;
    }
    if (watch.progress) watch.progress(static_cast<int>(sequence.n_tokens() - sequence.n_pending()), static_cast<int>(sequence.n_tokens()));
  }
  return AppendStatus::kDone;
}

}  // namespace kvik::engine
