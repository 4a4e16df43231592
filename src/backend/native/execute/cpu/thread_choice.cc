#include "backend/native/execute/cpu/thread_choice.h"

#include <algorithm>

namespace kvik::native {
namespace {

constexpr double kHopeless = 1.25;   // times as long as before: the trial ends at once
constexpr double kDisturbed = 1.4;   // times as long as usual: another program may have begun to work
constexpr double kLeastGain = 0.95;  // of more threads, so that two numbers that are equally good do not take turns

}  // namespace

double ThreadChoice::median() const {
  std::array<double, kCalls> sorted = times_;
  std::ranges::sort(sorted);
  return sorted[kCalls / 2];
}

void ThreadChoice::forget() {
  if (tries_) end_trial(false);
  n_times_ = 0;
  usual_ = 0;
}

void ThreadChoice::took(double seconds) {
  if (most_ < 2) return;
  if (is_first_) {
    is_first_ = false;
    return;
  }
  times_[n_times_++ % kCalls] = seconds;
  if (tries_) {
    if (seconds > kHopeless * before_) return end_trial(false);
    if (n_times_ == kCalls) end_trial(median() < (tried_level_ > level_ ? 1.0 : kLeastGain) * before_);
    return;
  }
  if (n_times_ % kCalls == 0) {
    if (usual_ > 0 && median() > kDisturbed * usual_) {
      wait_ = kFirstWait;
      left_ = 0;
    }
    usual_ = median();  // which grows with the context
  }
  if (--left_ <= 0 && n_times_ >= kCalls) begin_trial();
}

void ThreadChoice::begin_trial() {
  const auto can_try = [&] { return tries_fewer_ ? threads_at(level_) > 1 : level_ > 0; };
  if (!can_try()) tries_fewer_ = !tries_fewer_;
  before_ = median();
  tried_level_ = level_ + (tries_fewer_ ? 1 : -1);
  tries_ = is_first_ = true;
  n_times_ = 0;
}

void ThreadChoice::end_trial(bool keeps) {
  if (keeps) {
    level_ = tried_level_;
    wait_ = kFirstWait;
  } else {
    tries_fewer_ = !tries_fewer_;
    wait_ = std::min(2 * wait_, kMostWait);
  }
  left_ = wait_;
  tries_ = is_first_ = false;
  n_times_ = 0;
  usual_ = 0;
}

}  // namespace kvik::native
