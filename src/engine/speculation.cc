#include "engine/speculation.h"

#include <algorithm>

#include "base/elapsed.h"
#include "engine/sequence.h"

namespace kvik::engine {
namespace {

using Clock = std::chrono::steady_clock;

void drop_unsupported(const Sequence& sequence, std::vector<TokenId>& proposed) {
  const backend::Traits& traits = sequence.backend().traits();
  proposed.erase(std::ranges::find_if_not(proposed, [&](TokenId token) { return traits.can_run(token); }), proposed.end());
}

}  // namespace

Speculation::Speculation(std::vector<std::unique_ptr<Proposer>> proposers, const SpeculationOptions& options)
    : proposers_(std::move(proposers)), options_(options) {
  proposed_.reserve(options_.most_tokens);
  other_.reserve(kMostOther);
}

bool Speculation::begin(std::span<const TokenId> tokens, const Watch& watch) {
  return std::ranges::all_of(proposers_, [&](const std::unique_ptr<Proposer>& proposer) { return proposer->begin(tokens, watch); });
}

// Only now is it certain which proposals of the last run were accepted.
void Speculation::learn() {
  if (!ran_) return;
  ran_ = false;
  if (n_proposed_ > 0) {
    const size_t n_first = branched_ ? branch_ : n_accepted_;
    payoff_.add_run({.evidence = evidence_,
                     .n_proposed = n_proposed_,
                     .n_behind = n_behind_,
                     .n_accepted = n_first,
                     .n_other = n_other_,
                     .other_was_due = n_other_ > 0 && n_first == branch_,
                     .n_other_accepted = n_accepted_ - n_first},
                    run_ms_, search_ms_);
  } else {
    payoff_.add_plain_run(run_ms_, search_ms_);
  }
}

void Speculation::propose(const Sequence& sequence) {
  const std::span<const TokenId> tokens = sequence.all_tokens();
  if (tokens.size() == n_tokens_) return;  // the last step was another stream's
  n_tokens_ = tokens.size();
  withdraw();
  learn();
  search_ms_ = 0;
  if (options_.adapt && !payoff_.may_propose()) return;
  // The token before max_length is chosen, but not computed.
  const size_t n_useful = options_.max_length - std::min(options_.max_length, tokens.size() + 1);
  const size_t n_most = std::min({options_.most_tokens, n_useful, sequence.room_ahead()});
  if (n_most == 0) return;
  const Clock::time_point start = Clock::now();
  for (const std::unique_ptr<Proposer>& proposer : proposers_) {
    const std::optional<Evidence> evidence = proposer->match(tokens);
    const size_t depth = !evidence ? 0 : options_.adapt ? payoff_.depth(*evidence, n_most) : n_most;
    if (depth == 0) continue;
    evidence_ = *evidence;
    n_behind_ = proposer->n_behind(tokens);
    proposer->propose(tokens, depth, proposed_);
    drop_unsupported(sequence, proposed_);
    propose_other(sequence, *proposer, n_most);
    break;
  }
  search_ms_ = ms_since(start);
  untaken_ms_ += search_ms_;
}

void Speculation::propose_other(const Sequence& sequence, Proposer& proposer, size_t n_most) {
  if (proposed_.empty() || !sequence.backend().traits().can_branch) return;
  const std::optional<size_t> branch = proposer.propose_other(sequence.all_tokens(), kMostOther, proposed_, other_);
  if (!branch) return;
  branch_ = *branch;
  drop_unsupported(sequence, other_);
  size_t depth = std::min(other_.size(), n_most - branch_);
  if (options_.adapt) depth = payoff_.other_depth(evidence_, proposed_.size(), branch_, depth);
  other_.resize(depth);
}

void Speculation::add_run(double ms) {
  ran_ = true;
  run_ms_ = ms;
  n_proposed_ = proposed_.size();
  n_other_ = other_.size();
  n_accepted_ = 0;
  branched_ = false;
}

double Speculation::take_search_ms() { return std::exchange(untaken_ms_, 0.0); }

}  // namespace kvik::engine
