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

// Notifies readers of requests about new data. The engine's thread, which sets the signals, neither takes the GIL nor waits.
namespace kvik::python {

// The signals of all requests that one event loop reads: a descriptor that is readable while some are set, and the numbers of the requests.
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

// Whether one request has new data, for a thread that waits or for a mailbox.
class UpdateSignal {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_set_, true)) return;
    changed_.notify_all();
    if (mailbox_) mailbox_->put(number_);
  }

  // Call before polling the request.
  void clear() {
    const std::lock_guard lock(mutex_);
    is_set_ = false;
  }

  // Waits until it is set, for at most this time; returns whether it is.
  bool wait(std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, longest, [&] { return is_set_; });
  }

  // From now on, also notifies the mailbox (null: none). A request has one reader: a thread or an event loop.
  void send_to(std::shared_ptr<Mailbox> mailbox, int64_t number) {
    const std::lock_guard lock(mutex_);
    mailbox_ = std::move(mailbox);
    number_ = number;
    if (mailbox_ && is_set_) mailbox_->put(number_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
  std::shared_ptr<Mailbox> mailbox_;
  int64_t number_ = 0;
};

}  // namespace kvik::python
