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
  size_t max_length = 0;    // of the sequence, prompt included: nothing is proposed beyond
  size_t most_tokens = 15;  // proposed per run
  bool adapt = true;        // false: always as many as possible, to check that the result does not depend on it
};

// Tokens proposed for one stream: rows of the run that computes the chosen token. Those that the strategy then chooses need no run of their
// own; the others are dropped. Used by one thread at a time.
class Speculation {
 public:
  // Proposers in order: the first that has an idea is asked.
  Speculation(std::vector<std::unique_ptr<Proposer>> proposers, const SpeculationOptions& options);

  // Once, with the prompt, which a draft model computes too. False if it was cancelled.
  bool begin(std::span<const TokenId> tokens, const Watch& watch = {});
  // Before a step of the sequence: chooses what its next run computes ahead. Once per token.
  void propose(const Sequence& sequence);
  std::span<const TokenId> proposed() const { return proposed_; }
  std::span<const TokenId> other() const { return other_; }  // instead of those from proposed()[branch()] on; often empty
  size_t branch() const { return branch_; }
  void withdraw() {
    proposed_.clear();
    other_.clear();
  }
  int most_rows() const { return static_cast<int>(options_.most_tokens + kMostOther); }

  // After the run of a step. `ms`: its time; 0: it also computed prompts, so that the time says nothing.
  void add_run(double ms);
  void add_accepted() { ++n_accepted_; }
  void add_branched() { branched_ = true; }  // those that are accepted from now on are of other()
  // Spent in propose() since the last call.
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
  size_t n_tokens_ = 0;  // that the sequence had at the last propose()
  // Of the last run:
  bool ran_ = false;
  Evidence evidence_ = Evidence::kShortMatch;
  size_t n_proposed_ = 0, n_other_ = 0;
  size_t n_behind_ = 0;  // of the proposer, before it
  size_t n_accepted_ = 0;
  bool branched_ = false;
  double run_ms_ = 0;
  double search_ms_ = 0;  // before it
  double untaken_ms_ = 0;
};

}  // namespace kvik::engine
