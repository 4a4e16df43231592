#pragma once

#include <condition_variable>
#include <mutex>
#include <span>
#include <vector>

namespace kvik::engine {

// Work of several threads, done by one of them at a time and in the order in which it came. Jobs that wait together and can be joined
// are done together, by the thread that is first. Allocates nothing in a steady state.
template <class Job>
class JobQueue {
 public:
  // Returns when the job is done: do_jobs(std::span<Job* const>) was called with it, on this thread or another one. It must not throw.
  // A job has the members `joins` and `done`, and lives until then.
  template <class DoJobs>
  void run(Job& job, const DoJobs& do_jobs) {
    std::unique_lock lock(mutex_);
    waiting_.push_back(&job);
    while (!job.done) {
      if (busy_) {
        changed_.wait(lock);
        continue;
      }
      busy_ = true;
      take_first();
      lock.unlock();
      do_jobs(std::span<Job* const>(taken_));
      lock.lock();
      for (Job* each : taken_) each->done = true;
      busy_ = false;
      changed_.notify_all();
    }
  }

 private:
  void take_first() {
    size_t n = 1;
    while (waiting_.front()->joins && n < waiting_.size() && waiting_[n]->joins) ++n;
    taken_.assign(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(n));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(n));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;          // a thread is doing jobs
  std::vector<Job*> waiting_;  // oldest first
  std::vector<Job*> taken_;    // of the thread that is busy
};

}  // namespace kvik::engine
