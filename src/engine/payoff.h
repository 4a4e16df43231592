#pragma once

#include <array>
#include <cstddef>

#include "engine/propose.h"

namespace kvik::engine {

// Decides how many tokens are worth proposing, from acceptance rates and measured run times. The time lost by wrong proposals is taken from
// a budget, to which plain runs add a small share of their time and accepted proposals what they saved. While the budget is empty nothing
// is proposed, so that speculation costs about that share at most.
class Payoff {
 public:
  // False: depth() would be 0 for any evidence, so looking for a match can be skipped.
  bool may_propose() const;
  // How many tokens to propose, at most n; 0: not worthwhile.
  size_t depth(Evidence evidence, size_t n) const;
  // How many tokens of a second continuation to propose, which branches off after `branch` of the `depth` tokens of the first.
  size_t other_depth(Evidence evidence, size_t depth, size_t branch, size_t n);

  // The result of the proposals of one run.
  struct Outcome {
    Evidence evidence = Evidence::kShortMatch;
    size_t n_proposed = 0;
    size_t n_behind = 0;  // tokens that the proposer had to compute first
    size_t n_accepted = 0;
    size_t n_other = 0;          // tokens of the second continuation
    bool other_was_due = false;  // the first continuation was wrong where the second one branches off
    size_t n_other_accepted = 0;
  };

  // `run_ms`: time of the run (0: not comparable, because it also computed something else); `search_ms`: time spent finding proposals.
  void add_plain_run(double run_ms, double search_ms);
  void add_run(const Outcome& outcome, double run_ms, double search_ms);

 private:
  struct Kind {
    double accepted;        // probability that the next proposed token is accepted
    double search_ms = -1;  // per proposed token; -1: not known
  };
  double row_ms(size_t n) const;
  double cost_ms(const Kind& kind, size_t n) const;
  static double expected_tokens(const Kind& kind, size_t n);
  void pay(double ms);
  void learn(Evidence evidence, size_t n_proposed, size_t n_accepted);

  double plain_ms_ = 0;                                  // of a run without proposals
  std::array<double, 5> row_ms_ = {-1, -1, -1, -1, -1};  // of a proposed token, if there are 1, 2, up to 4, up to 8 or more; -1: not known
  int n_plain_ = 0;
  int n_since_plain_ = 0;
  int n_without_other_ = 0;  // runs since a second continuation was proposed
  double account_ms_ = 0;
  std::array<Kind, kEvidenceKinds> kinds_ = {{{0.3}, {0.6}, {0.8}, {0.8}, {0.8}, {0.9}, {0.3}}};
};

}  // namespace kvik::engine
