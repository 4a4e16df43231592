#pragma once

#include <span>
#include <vector>

#include "backend/native/execute/call.h"
#include "backend/native/execute/cpu/cpu_plan.h"
#include "base/recorder.h"

namespace kvik::native {

// Records the ops of a plan by kind, with the bytes and multiplications that products and attention need; the rest reads little.
class OpRecorder {
 public:
  OpRecorder(Recorder& recorder, const CpuPlan& plan);

  Recorder& recorder() const { return recorder_; }
  int kind(OpIndex op) const { return kinds_[static_cast<size_t>(op)]; }
  void begin_parts() const { recorder_.begin(parts_kind_); }  // what the threads do from now on
  Recorder::Work work_of(OpIndex op, std::span<const RunRow> rows, std::span<const RunSequence> sequences) const;

 private:
  Recorder& recorder_;
  const CpuPlan& plan_;
  std::vector<int> kinds_;  // [op]
  int parts_kind_;
};

}  // namespace kvik::native
