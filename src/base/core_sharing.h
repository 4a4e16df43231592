#pragma once

#include <cstdint>

namespace kvik {

// Decides when a helper thread of a pool leaves its core to other programs. If the scheduler takes the core inside an item, the whole job
// waits for that item until the thread runs again, which takes milliseconds. Between two items nobody waits for it. So while another
// program wants the core, the thread takes a break between two items before its time slice ends. It sleeps for some microseconds instead
// of yielding, because a sleeping thread keeps its claim to the core and a yielding one forfeits it.
//
// A late job starts a trial, in which the thread only yields now and then: this costs nothing if nobody else wants the core, and takes long
// otherwise. Times are in nanoseconds. Used by one thread.
class CoreSharing {
 public:
  static constexpr int64_t kRun = 1'000'000;      // between two breaks: below the time slices of Linux, which are 1.4 to 4 ms
  static constexpr int64_t kNap = 30'000;         // most kernels make it 80 us
  static constexpr int64_t kLongBreak = 300'000;  // somebody else had the core
  static constexpr int64_t kTrial = 20'000'000;   // how long a trial lasts
  static constexpr int64_t kPause = 80'000'000;   // after one that found nobody
  static constexpr int64_t kMemory = 50'000'000;  // after the last long break, the core counts as shared
  static constexpr int64_t kPreempted = 500'000;  // between two items: perhaps the thread did not run meanwhile

  enum class Break { kNone, kYield, kNap };

  bool is_on() const { return mode_ != Mode::kAlone; }

  // A job had to wait long for its last items.
  void job_was_late(int64_t now) {
    if (is_on() || now < until_) return;
    mode_ = Mode::kTrial;
    until_ = now + kTrial;
    resumed_ = checked_ = now;
  }

  // After an item, if is_on(). n_switches(): how often the scheduler took the core from this thread; asked only after a long item. The time
  // slice begins again after each.
  template <class Count>
  Break after_item(int64_t now, Count n_switches) {
    if (now - checked_ >= kPreempted) {
      const int64_t n = n_switches();
      if (n != n_switches_) resumed_ = now;
      n_switches_ = n;
    }
    checked_ = now;
    if (now - resumed_ < kRun) return Break::kNone;
    return mode_ == Mode::kTrial ? Break::kYield : Break::kNap;
  }

  // The break that after_item() asked for.
  void took_break(int64_t begin, int64_t end, int64_t n_switches) {
    if (end - begin >= kLongBreak) {
      mode_ = Mode::kShared;
      until_ = end + kMemory;
    }
    resumed_ = checked_ = end;
    n_switches_ = n_switches;
    end_if_over(end);
  }

  // Before a job, if is_on(): after a time without jobs, nothing is known of the core.
  void end_if_over(int64_t now) {
    if (now < until_) return;
    mode_ = Mode::kAlone;
    until_ = now + kPause;
  }

 private:
  enum class Mode { kAlone, kTrial, kShared };

  Mode mode_ = Mode::kAlone;
  int64_t until_ = 0;    // the mode ends; of kAlone: no trial begins before
  int64_t resumed_ = 0;  // the thread has had the core since then
  int64_t checked_ = 0;
  int64_t n_switches_ = 0;
};

}  // namespace kvik
