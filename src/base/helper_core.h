#pragma once

#include <cstdint>

#include "base/core_sharing.h"
#include "base/thread_cpu.h"

namespace kvik {

// What a helper thread of a pool does while other programs want its core: it takes breaks between two items (CoreSharing), and stays off
// the core of the thread whose jobs it shares, which would be slowed down by it. Used by one thread.
class HelperCore {
 public:
  // Before the items of a job. `n_late`: jobs so far that waited long for their last items.
  void begin_job(uint32_t n_late, int caller_cpu) {
    if (n_late != n_late_ || sharing_.is_on()) prepare(n_late, caller_cpu);
  }
  // After an item: whether the thread should finish what it has begun and call take_break().
  bool wants_break() { return sharing_.is_on() && decide(); }
  void take_break(int caller_cpu);

 private:
  void prepare(uint32_t n_late, int caller_cpu);
  bool decide();
  void move(int caller_cpu);

  CoreSharing sharing_;
  CoreSharing::Break next_ = CoreSharing::Break::kNone;
  AvoidedCpu avoided_;
  uint32_t n_late_ = 0;
};

}  // namespace kvik
