#include "engine/payoff.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kvik::engine {
namespace {

constexpr double kRate = 1.0 / 8;     // of the exponential average of what is accepted
constexpr double kStep = 0.1;         // largest change of a time by one sample, in plain runs
constexpr double kShare = 0.005;      // of the time of plain runs, for trying proposals
constexpr double kFirstRuns = 2.0;    // in the account at the beginning, in plain runs
constexpr double kMostRuns = 6.0;     // in the account
constexpr double kMostDebt = 16.0;    // one long search is not held against proposals for ever
constexpr int kFirstPlainRuns = 2;    // to learn what one costs
constexpr int kPlainRunEvery = 64;    // and whether that has changed
constexpr size_t kProbe = 2;          // tokens proposed to see whether more are accepted than before
constexpr int kOtherEvery = 32;       // runs between two tries of a second idea that does not pay
constexpr double kUnknownRow = 0.25;  // cost of a proposed token before one was tried, in plain runs

void average(double& value, double sample) { value += kRate * (sample - value); }

// Near the median: how long another program held a run up does not matter.
void follow(double& ms, double sample_ms, double step_ms) { ms += std::clamp(sample_ms - ms, -step_ms, step_ms); }

size_t bucket_of(size_t n_proposed) { return std::min<size_t>(4, std::bit_width(n_proposed - 1)); }

}  // namespace

bool Payoff::may_propose() const { return n_plain_ >= kFirstPlainRuns && n_since_plain_ < kPlainRunEvery && account_ms_ > 0; }

// Of the nearest number of tokens that was tried.
double Payoff::row_ms(size_t n) const {
  const size_t bucket = bucket_of(n);
  for (size_t i = bucket + 1; i-- > 0;) {
    if (row_ms_[i] >= 0) return row_ms_[i];
  }
  for (size_t i = bucket + 1; i < row_ms_.size(); ++i) {
    if (row_ms_[i] >= 0) return row_ms_[i];
  }
  return kUnknownRow * plain_ms_;
}

double Payoff::cost_ms(const Kind& kind, size_t n) const {
  return plain_ms_ + static_cast<double>(n) * (row_ms(n) + std::max(0.0, kind.search_ms));
}

double Payoff::expected_tokens(const Kind& kind, size_t n) {
  double sum = 1, all = 1;
  for (size_t i = 0; i < n; ++i) sum += all *= kind.accepted;
  return sum;
}

size_t Payoff::depth(Evidence evidence, size_t n) const {
  if (!may_propose()) return 0;
  const Kind& kind = kinds_[static_cast<size_t>(evidence)];
  size_t best = 0;
  double best_ms = plain_ms_;  // per token
  for (size_t k = 1; k <= n; ++k) {
    const double ms = cost_ms(kind, k) / expected_tokens(kind, k);
    if (ms >= best_ms) continue;
    best = k;
    best_ms = ms;
  }
  if (best > 0) return best;
  const size_t probe = std::min(n, kProbe);
  return cost_ms(kind, probe) - plain_ms_ <= account_ms_ ? probe : 0;
}

void Payoff::pay(double ms) { account_ms_ = std::clamp(account_ms_ - ms, -kMostDebt * plain_ms_, kMostRuns * plain_ms_); }

void Payoff::add_plain_run(double run_ms, double search_ms) {
  if (run_ms <= 0) return;
  n_since_plain_ = 0;
  if (n_plain_ < kFirstPlainRuns) {
    plain_ms_ = n_plain_ == 0 ? run_ms : std::min(plain_ms_, run_ms);
    if (++n_plain_ == kFirstPlainRuns) account_ms_ = kFirstRuns * plain_ms_;
  }
  follow(plain_ms_, run_ms, kStep * plain_ms_);
  pay(std::min(search_ms, plain_ms_) - kShare * plain_ms_);
}

size_t Payoff::other_depth(Evidence evidence, size_t depth, size_t branch, size_t n) {
  const double first = kinds_[static_cast<size_t>(evidence)].accepted, second = kinds_[static_cast<size_t>(Evidence::kOther)].accepted;
  const double is_due = std::pow(first, static_cast<double>(branch)) * (1 - first);
  size_t best = 0;
  double best_ms = 0;  // that are saved
  double all = 1, n_tokens = 0;
  for (size_t k = 1; k <= n; ++k) {
    n_tokens += all *= second;
    const double ms = is_due * n_tokens * plain_ms_ - static_cast<double>(k) * row_ms(depth + k);
    if (ms <= best_ms) continue;
    best = k;
    best_ms = ms;
  }
  // Now and then one token, to see whether that has changed.
  if (best == 0 && ++n_without_other_ >= kOtherEvery && n > 0) best = 1;
  if (best > 0) n_without_other_ = 0;
  return best;
}

void Payoff::learn(Evidence evidence, size_t n_proposed, size_t n_accepted) {
  double& accepted = kinds_[static_cast<size_t>(evidence)].accepted;
  for (size_t i = 0; i < n_accepted; ++i) average(accepted, 1);
  if (n_accepted < n_proposed) average(accepted, 0);
}

void Payoff::add_run(const Outcome& outcome, double run_ms, double search_ms) {
  learn(outcome.evidence, outcome.n_proposed, outcome.n_accepted);
  if (outcome.other_was_due) learn(Evidence::kOther, outcome.n_other, outcome.n_other_accepted);
  ++n_since_plain_;
  Kind& kind = kinds_[static_cast<size_t>(outcome.evidence)];
  const size_t n_rows = outcome.n_proposed + outcome.n_other;
  const auto n = static_cast<double>(n_rows);
  search_ms = std::min(search_ms, kMostDebt * plain_ms_);
  // A model that proposes computes about one token per token it proposes; if it has not been used for a while, also those in between.
  const double search_ms_per_token = search_ms / static_cast<double>(std::max(n_rows, n_rows - 1 + outcome.n_behind));
  if (kind.search_ms < 0) kind.search_ms = search_ms_per_token;
  follow(kind.search_ms, search_ms_per_token, kStep * plain_ms_);
  if (run_ms > 0) {
    double& row = row_ms_[bucket_of(n_rows)];
    row = row_ms(n_rows);
    follow(row, std::max(0.0, (run_ms - plain_ms_) / n), kStep * plain_ms_);
  }
  const double saved_ms = static_cast<double>(outcome.n_accepted + outcome.n_other_accepted) * plain_ms_;
  pay(n * row_ms(n_rows) + search_ms - saved_ms);
}

}  // namespace kvik::engine
