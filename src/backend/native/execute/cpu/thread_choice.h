#pragma once

#include <array>
#include <cstddef>

namespace kvik::native {

// How many threads calls of few rows should use: all, half of them, a quarter … More threads may take longer, because they wait for each
// other after every operation, or because another program keeps a core busy. Now and then some calls try the next smaller or larger
// number, which is kept if it is faster; the longer nothing is gained, the rarer that is. Bits do not depend on it.
class ThreadChoice {
 public:
  explicit ThreadChoice(int most) : most_(most) {}

  int n_threads() const { return threads_at(tries_ ? tried_level_ : level_); }  // of the next call
  void took(double seconds);                                                    // a call with that many threads
  void forget();                                                                // calls that follow do other work

 private:
  static constexpr int kFirstWait = 24;  // calls before a trial, as long as trials gain something
  static constexpr int kMostWait = 4096;
  static constexpr size_t kCalls = 5;  // that are compared

  int threads_at(int level) const { return most_ >> level > 1 ? most_ >> level : 1; }
  double median() const;
  void begin_trial();
  void end_trial(bool keeps);

  int most_;
  int level_ = 0;  // halvings
  int tried_level_ = 0;
  bool tries_ = false;       // now
  bool is_first_ = false;    // call of a trial, which wakes threads: it does not count
  bool tries_fewer_ = true;  // next
  int wait_ = kFirstWait, left_ = kFirstWait;
  std::array<double, kCalls> times_{};  // of the last calls
  size_t n_times_ = 0;
  double before_ = 0;  // median before the trial
  double usual_ = 0;   // of calls since then
};

}  // namespace kvik::native
