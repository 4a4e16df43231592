#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <nanobind/nanobind.h>

#include "gil.h"

namespace kvik::python {

// A call into the library that runs without the GIL and can take long. Between two steps of the model it lets Python handle signals, so
// that Ctrl-C ends it, and reports progress. What a signal handler or the progress function raises cancels the call and is raised at its
// end.
class Call {
 public:
  // `progress`: f(done, total), or None.
  explicit Call(nb::object progress = nb::none());

  // For the options of the library; they share this call's state.
  std::function<bool()> cancelled() const;
  std::function<void(int done, int total)> progress() const;  // empty if none was passed

  // Calls `run` without the GIL.
  template <class Run>
  auto run(Run&& run) const {
    if constexpr (std::is_void_v<decltype(run())>) {
      {
        const ReleasedGil released;
        run();
      }
      raise();
    } else {
      auto result = [&] {
        const ReleasedGil released;
        return run();
      }();
      raise();
      return result;
    }
  }

  void raise() const;  // what a handler or the progress function raised

  struct State;

 private:
  std::shared_ptr<State> state_;
};

// Handles are destroyed without the GIL: their threads may need it to end.
template <class T>
void drop(T& handle) {
  const ReleasedGil released;
  handle = T();
}

}  // namespace kvik::python
