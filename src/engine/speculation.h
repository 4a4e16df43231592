#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "engine/payoff.h"
#include "engine/propose.h"
#include "engine/watch.h"

namespace kvik::engine {

class Sequence;

struct SpeculationOptions {
  size_t max_length = 0;    // of the sequence, including the prompt: nothing is proposed beyond
  size_t most_tokens = 15;  // per run
  bool adapt = true;        // false: always propose as many as possible, to test that results do not depend on it
};

// Tokens proposed for one stream. They are computed in the same run as the chosen token. Those that the strategy then chooses need no run
// of their own; the others are dropped. Used by one thread at a time.
class Speculation {
 public:
  // Uses the first proposer that has a match.
  Speculation(std::vector<std::unique_ptr<Proposer>> proposers, const SpeculationOptions& options);

  // Called once with the prompt, which a draft model computes too. False if it was cancelled.
  bool begin(std::span<const TokenId> tokens, const Watch& watch = {});
  // Called before a step, once per token: chooses which tokens the next run computes ahead.
  void propose(const Sequence& sequence);
  std::span<const TokenId> proposed() const { return proposed_; }
  std::span<const TokenId> other() const { return other_; }  // instead of those from proposed()[branch()] on; often empty
  size_t branch() const { return branch_; }
  void withdraw() {
    proposed_.clear();
    other_.clear();
  }
  int most_rows() const { return static_cast<int>(options_.most_tokens + kMostOther); }

  // Called after the run of a step. `ms`: its time; 0: not comparable, because it also computed prompts.
  void add_run(double ms);
  void add_accepted() { ++n_accepted_; }
  void add_branched() { branched_ = true; }  // tokens accepted from now on are from other()
  // Time spent in propose() since the last call.
  double take_search_ms();

 private:
  static constexpr size_t kMostOther = 4;
  void learn();
  void propose_other(const Sequence& sequence, Proposer& proposer, size_t n_most);

  std::vector<std::unique_ptr<Proposer>> proposers_;
  SpeculationOptions options_;
  Payoff payoff_;
  std::vector<TokenId> proposed_, other_;
  size_t branch_ = 0;
  size_t n_tokens_ = 0;  // length of the sequence at the last propose()
  // Of the last run:
  bool ran_ = false;
  Evidence evidence_ = Evidence::kShortMatch;
  size_t n_proposed_ = 0, n_other_ = 0;
  size_t n_behind_ = 0;  // Proposer::n_behind() before the run
  size_t n_accepted_ = 0;
  bool branched_ = false;
  double run_ms_ = 0;
  double search_ms_ = 0;  // in propose() before the run
  double untaken_ms_ = 0;
};

}  // namespace kvik::engine
