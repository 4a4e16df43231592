#include "gil.h"

#include <atomic>
#include <chrono>

namespace kvik::python {
namespace {

// Per process, like the interpreter.
std::atomic<bool> is_shutting_down{false};
std::atomic<std::thread::id> last_thread;
std::atomic<int> n_asking{0};  // threads that passed the check and wait for the GIL

// Returns when the thread may ask for the GIL; n_asking counts it from then on.
void before_asking() {
  n_asking.fetch_add(1);
  if (!is_shutting_down || last_thread.load() == std::this_thread::get_id()) return;
  n_asking.fetch_sub(1);
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

void shut_down() {
  last_thread = std::this_thread::get_id();
  is_shutting_down = true;
  for (int ms = 0; ms < 1000 && n_asking > 0; ++ms) {  // those that asked before get it
    PyThreadState* const thread = PyEval_SaveThread();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    PyEval_RestoreThread(thread);
  }
}

ReleasedGil::~ReleasedGil() {
  before_asking();
  PyEval_RestoreThread(thread_);
  n_asking.fetch_sub(1);
}

AcquiredGil::AcquiredGil() {
  before_asking();
  state_ = PyGILState_Ensure();
  n_asking.fetch_sub(1);
}

}  // namespace kvik::python
