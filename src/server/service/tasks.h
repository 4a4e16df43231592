#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kvik::server {

// A few threads that do work in the order in which it came. For what takes longer than the thread of the server may, and runs no model:
// parsing, templates, tokenizing, downloads.
class Tasks {
 public:
  Tasks(size_t n_threads, size_t most_waiting);
  ~Tasks();  // does what waits
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  // Any thread. False if too much waits already. The task must not throw.
  bool try_post(std::function<void()> task);
  void wait_until_idle();  // nothing waits and nothing runs

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
