#pragma once

#include <nanobind/nanobind.h>
#include <thread>

namespace kvik::python {

namespace nb = nanobind;

// Python ends threads that ask for the GIL while it shuts down, by unwinding their stacks, which C++ does not survive. So after shut_down()
// other threads than the one that shuts down no longer ask: they wait for the end of the process.
void shut_down();

// Without the GIL while it lives.
class ReleasedGil {
 public:
  ReleasedGil() : thread_(PyEval_SaveThread()) {}
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* thread_;
};

// With the GIL while it lives, on any thread.
class AcquiredGil {
 public:
  AcquiredGil();
  ~AcquiredGil() { PyGILState_Release(state_); }
  AcquiredGil(const AcquiredGil&) = delete;
  AcquiredGil& operator=(const AcquiredGil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace kvik::python
