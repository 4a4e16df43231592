#include "base/helper_core.h"

#include <chrono>
#include <sched.h>

namespace kvik {
namespace {

int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void HelperCore::prepare(uint32_t n_late, int caller_cpu) {
  const int64_t now = clock_ns();
  if (sharing_.is_on()) sharing_.end_if_over(now);
  if (n_late != n_late_) sharing_.job_was_late(now);
  n_late_ = n_late;
  move(caller_cpu);
}

bool HelperCore::decide() {
  next_ = sharing_.after_item(clock_ns(), n_preemptions);
  return next_ != CoreSharing::Break::kNone;
}

void HelperCore::take_break(int caller_cpu) {
  const int64_t begin = clock_ns();
  if (next_ == CoreSharing::Break::kNap)
    nap(CoreSharing::kNap);
  else
    sched_yield();
  sharing_.took_break(begin, clock_ns(), n_preemptions());
  move(caller_cpu);
}

void HelperCore::move(int caller_cpu) {
  if (!sharing_.is_on()) return avoided_.stop();
  if (current_cpu() == caller_cpu) avoided_.avoid(caller_cpu);
}

}  // namespace kvik
