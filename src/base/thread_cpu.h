#pragma once

#include <cstdint>
#include <sched.h>

// Where the calling thread runs.
namespace kvik {

int current_cpu();        // -1 if the system does not tell
int64_t n_preemptions();  // how often the scheduler has taken the core from this thread
void nap(int64_t n_ns);   // sleeps, at least that long

// Keeps the calling thread off one CPU, within the CPUs that it may use. A setting that others make meanwhile is respected. Used by one
// thread.
class AvoidedCpu {
 public:
  void avoid(int cpu);  // does nothing if the thread may run nowhere else
  void stop();          // it may use all of its CPUs again
  bool is_on() const { return is_on_; }

 private:
  bool is_on_ = false;
  cpu_set_t all_, set_;  // if is_on_: the CPUs that the thread had, and has
};

}  // namespace kvik
