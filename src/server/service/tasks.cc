#include "server/service/tasks.h"

namespace kvik::server {

Tasks::Tasks(size_t n_threads, size_t most_waiting) : most_waiting_(most_waiting) {
  for (size_t i = 0; i < n_threads; ++i) threads_.emplace_back([this] { run(); });
}

Tasks::~Tasks() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Tasks::try_post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= most_waiting_) return false;
  waiting_.push_back(std::move(task));
  changed_.notify_one();
  return true;
}

void Tasks::wait_until_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return waiting_.empty() && n_running_ == 0; });
}

void Tasks::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    {
      const std::function<void()> task = std::move(waiting_.front());
      waiting_.pop_front();
      ++n_running_;
      lock.unlock();
      task();
    }
    lock.lock();
    --n_running_;
    idle_.notify_all();
  }
}

}  // namespace kvik::server
