#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>

#include "engine/scheduler.h"
#include "kvik/engine.h"

namespace kvik::api {

// Common base of all requests of an engine. Created by the submitting thread; then the scheduler owns it, and other threads access only the
// members that the mutex protects.
class RequestState : public engine::Request {
 public:
  RequestState(const RequestOptions& options, std::function<bool()> cancelled);

  bool is_cancelled() const override {
    return cancel.load(std::memory_order_relaxed) || is_late() || (cancelled_by_caller_ && cancelled_by_caller_());
  }
  bool is_late() const { return deadline_ && std::chrono::steady_clock::now() >= *deadline_; }
  std::string_view user() const override { return user_; }

  std::atomic<bool> cancel{false};

  mutable std::mutex mutex;  // protects the members below
  std::condition_variable changed;
  bool has_ended = false;
  bool timed_out = false;
  std::exception_ptr error;

 protected:
  void notify() const {
    if (on_update_) on_update_();
  }
  // The last call. `set` stores the result while the mutex is held; readers are notified.
  template <class Set>
  void end(bool cancelled, std::exception_ptr failure, const Set& set);

 private:
  const std::string user_;
  const std::function<bool()> cancelled_by_caller_;
  std::function<void()> on_update_;
  const std::optional<std::chrono::steady_clock::time_point> deadline_;
};

inline RequestState::RequestState(const RequestOptions& options, std::function<bool()> cancelled)
    : user_(options.user), cancelled_by_caller_(std::move(cancelled)), on_update_(options.on_update), deadline_([&] {
        std::optional<std::chrono::steady_clock::time_point> end;
        constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
        if (options.timeout.count() > 0) end = std::chrono::steady_clock::now() + std::min(options.timeout, kLongest);
        return end;
      }()) {}

template <class Set>
void RequestState::end(bool cancelled, std::exception_ptr failure, const Set& set) {
  const bool late = cancelled && is_late();
  {
    const std::lock_guard lock(mutex);
    error = std::move(failure);
    timed_out = late;
    set();
    has_ended = true;
    changed.notify_all();
  }
  // Moved out first, because the callback's captures may own this object.
  if (const std::function<void()> on_update = std::exchange(on_update_, nullptr)) on_update();
}

}  // namespace kvik::api
