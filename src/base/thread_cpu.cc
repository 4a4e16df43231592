#include "base/thread_cpu.h"

#include <sys/resource.h>
#include <time.h>

namespace kvik {

int current_cpu() { return sched_getcpu(); }

int64_t n_preemptions() {
  rusage usage{};
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

void nap(int64_t n_ns) {
  const timespec time{.tv_sec = 0, .tv_nsec = n_ns};
  nanosleep(&time, nullptr);
}

void AvoidedCpu::avoid(int cpu) {
  cpu_set_t now;
  if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof(now), &now) != 0) return;  // more CPUs than a cpu_set_t has
  if (!is_on_ || !CPU_EQUAL(&now, &set_)) all_ = now;
  cpu_set_t others = all_;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof(others), &others) != 0) return;
  set_ = others;
  is_on_ = true;
}

void AvoidedCpu::stop() {
  if (!is_on_) return;
  is_on_ = false;
  cpu_set_t now;
  if (sched_getaffinity(0, sizeof(now), &now) == 0 && CPU_EQUAL(&now, &set_)) sched_setaffinity(0, sizeof(all_), &all_);
}

}  // namespace kvik
