#pragma once

#include <array>
#include <span>
#include <vector>

#include "backend/native/execute/cpu/op_recorder.h"

namespace kvik::native {

// Runs the sections of a plan on rows, in memory of its own: several of them may run at the same time, on rows of different sequences.
class RowRunner {
 public:
  // All must outlive it. `recorder` may be null. n_sharing: so many of them share the time that is recorded.
  RowRunner(const CpuPlan& plan, const SectionTables& tables, ThreadPool& pool, const OpRecorder* recorder, int n_sharing = 1);

  void run(const RunCall& call);
  // `inputs`: of `rows`, which begin at `first_row` of the call's.
  void run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources, std::span<const std::span<const float>> inputs,
                  size_t first_row);

 private:
  void run_ops(std::span<const OpIndex> ops, std::span<const RunRow> rows, std::span<const RunSequence> sequences);
  void find_largest(const RunCall& call);
  void reserve(Op::Section section, std::span<const RunRow> rows, std::span<const RunSequence> sequences);
  void set_inputs(const RunCall& call);
  void enter_tail(const RunCall& call);
  void copy_output(const RunCall& call);
  int64_t output_stride(const RunCall& call) const { return call.stride_of_output(plan_.output.size); }
  CpuValues::View& view(ValueIndex v) { return values_.views[static_cast<size_t>(v)]; }

  const CpuPlan& cpu_plan_;
  const Plan& plan_;
  const OpRecorder* recorder_;
  int n_sharing_;
  CpuValues values_;
  struct SectionMemory {
    AlignedBuffer arena;
    int64_t n_rows = -1;  // that the views are set for
  };
  std::array<SectionMemory, 3> memory_;
  std::vector<RunRow> tail_rows_;
};

}  // namespace kvik::native
