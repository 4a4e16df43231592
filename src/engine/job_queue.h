#pragma once

#include <condition_variable>
#include <mutex>
#include <span>
#include <vector>

namespace kvik::engine {

// Executes the jobs of several threads one at a time, in order of arrival, on one of these threads. Waiting jobs that can be joined are
// executed together, by the thread of the first one. Allocates nothing in a steady state.
template <class Job>
class JobQueue {
 public:
  // Returns when do_jobs(std::span<Job* const>) has been called with the job, on this thread or another one. do_jobs must not throw. A job
  // has the members `joins` and `done`, and must live until then.
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
  bool busy_ = false;          // a thread is executing jobs
  std::vector<Job*> waiting_;  // oldest first
  std::vector<Job*> taken_;    // being executed
};

}  // namespace kvik::engine
