#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kvik::server {

// A few threads that execute tasks in the order of their arrival. For work that is too slow for the thread of the server and does not run
// a model: parsing, templates, tokenizing, downloads.
class Tasks {
 public:
  Tasks(size_t n_threads, size_t most_waiting);
  ~Tasks();  // executes waiting tasks
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  // Any thread. False if the queue is full. The task must not throw.
  bool try_post(std::function<void()> task);
  void wait_until_idle();  // no task is waiting or running

 private:
  void run();

  const size_t most_waiting_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_, idle_;
  std::deque<std::function<void()>> waiting_;
  size_t n_running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvik::server
