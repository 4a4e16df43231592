#pragma once

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "kvik/error.h"

// News of streams, from the thread of an engine to those who read them. The engine's thread neither takes the GIL nor waits.
namespace kvik::python {

// Of all streams that one event loop reads: a descriptor that is readable while there is news, and the numbers of the streams.
class Mailbox {
 public:
  Mailbox() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (descriptor_ < 0) throw Error(Code::kIo, "cannot create an event descriptor: " + std::generic_category().message(errno));
  }
  ~Mailbox() { close(descriptor_); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  int descriptor() const { return descriptor_; }

  void put(int64_t number) {
    const std::lock_guard lock(mutex_);
    numbers_.push_back(number);
    const uint64_t one = 1;
    if (numbers_.size() == 1) (void)!write(descriptor_, &one, sizeof one);
  }

  std::vector<int64_t> take() {
    const std::lock_guard lock(mutex_);
    uint64_t count = 0;
    (void)!read(descriptor_, &count, sizeof count);
    return std::exchange(numbers_, {});
  }

 private:
  int descriptor_;
  std::mutex mutex_;
  std::vector<int64_t> numbers_;
};

// Of one stream, for a thread that waits or for a mailbox.
class News {
 public:
  void put() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_new_, true)) return;
    changed_.notify_all();
    if (mailbox_) mailbox_->put(number_);
  }

  // Before the stream is polled.
  void seen() {
    const std::lock_guard lock(mutex_);
    is_new_ = false;
  }

  // Whether there is news; waits for at most so long.
  bool wait(std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, longest, [&] { return is_new_; });
  }

  // From now on. A stream has one reader: a thread or an event loop.
  void send_to(std::shared_ptr<Mailbox> mailbox, int64_t number) {
    const std::lock_guard lock(mutex_);
    mailbox_ = std::move(mailbox);
    number_ = number;
    if (mailbox_ && is_new_) mailbox_->put(number_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_new_ = false;
  std::shared_ptr<Mailbox> mailbox_;
  int64_t number_ = 0;
};

}  // namespace kvik::python
