#include "engine/speculation.h"

#include <algorithm>

#include "engine/sequence.h"

namespace kvik::engine {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Speculation::Speculation(std::vector<std::unique_ptr<Proposer>> proposers, const SpeculationOptions& options)
    : proposers_(std::move(proposers)), options_(options) {
  proposed_.reserve(options_.most_tokens);
}

bool Speculation::begin(std::span<const TokenId> tokens, const Watch& watch) {
  return std::ranges::all_of(proposers_, [&](const std::unique_ptr<Proposer>& proposer) { return proposer->begin(tokens, watch); });
}

// What became of the last run's proposals is certain only now.
void Speculation::learn() {
  if (!ran_) return;
  ran_ = false;
  if (n_proposed_ > 0) {
    payoff_.add_run(evidence_, n_proposed_, n_accepted_, run_ms_, search_ms_);
  } else {
    payoff_.add_plain_run(run_ms_, search_ms_);
  }
}

void Speculation::propose(const Sequence& sequence) {
  const std::span<const TokenId> tokens = sequence.all_tokens();
  if (tokens.size() == n_tokens_) return;  // the last step was another stream's
  n_tokens_ = tokens.size();
  proposed_.clear();
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
    proposer->propose(tokens, depth, proposed_);
    break;
  }
  const backend::Traits& traits = sequence.backend().traits();
  const auto bad = std::ranges::find_if_not(proposed_, [&](TokenId token) { return traits.can_run(token); });
  proposed_.erase(bad, proposed_.end());
  search_ms_ = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  untaken_ms_ += search_ms_;
}

void Speculation::add_run(double ms) {
  ran_ = true;
  run_ms_ = ms;
  n_proposed_ = proposed_.size();
  n_accepted_ = 0;
}

double Speculation::take_search_ms() { return std::exchange(untaken_ms_, 0.0); }

}  // namespace kvik::engine
