#include "call.h"

#include "kvik/error.h"

namespace kvik::python {
namespace {

using Clock = std::chrono::steady_clock;
// The GIL can take milliseconds to get if other threads compute, so signals are not looked for at every token.
constexpr std::chrono::milliseconds kBetweenChecks{20};

}  // namespace

struct Call::State {
  nb::object on_progress;
  std::exception_ptr raised;
  Clock::time_point next_check = Clock::now() + kBetweenChecks;

  // The last reference may be dropped while the library destroys what it was given.
  ~State() {
    const AcquiredGil acquired;
    on_progress.reset();
    raised = nullptr;
  }

  // Without the GIL. True: something was raised.
  template <class Function>
  bool call_python(const Function& function) {
    const AcquiredGil acquired;
    try {
      function();
    } catch (...) { raised = std::current_exception(); }
    return raised != nullptr;
  }

  bool is_cancelled() {
    if (raised) return true;
    const Clock::time_point now = Clock::now();
    if (now < next_check) return false;
    next_check = now + kBetweenChecks;
    return call_python([] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();  // nothing to do on other threads than the main one
    });
  }
};

Call::Call(nb::object progress) : state_(std::make_shared<State>()) { state_->on_progress = std::move(progress); }

std::function<bool()> Call::cancelled() const {
  return [state = state_] { return state->is_cancelled(); };
}

std::function<void(int, int)> Call::progress() const {
  if (state_->on_progress.is_none()) return nullptr;
  return [state = state_](int done, int total) {
    if (!state->raised) state->call_python([&] { state->on_progress(done, total); });
  };
}

void Call::raise() const {
  if (state_->raised) std::rethrow_exception(std::exchange(state_->raised, nullptr));
}

}  // namespace kvik::python
