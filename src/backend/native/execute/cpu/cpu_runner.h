#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "backend/native/execute/cpu/cpu_values.h"
#include "backend/native/execute/execute.h"
#include "backend/native/execute/waves.h"
#include "backend/native/place/place.h"
#include "base/recorder.h"

namespace kvik::native {

// Runs a plan on the kernels of an instruction set, on all threads of a pool.
class CpuRunner final : public Runner {
 public:
  struct Parts {
    std::shared_ptr<const Plan> plan;
    std::vector<LoadedWeight> weights;
    cpu::KvFormat kv_format = cpu::KvFormat::kF32;
    const cpu::CpuKernels* kernels = nullptr;
    ThreadPool* pool = nullptr;    // outlives it
    Recorder* recorder = nullptr;  // the same; null: nothing is measured
  };
  explicit CpuRunner(Parts parts);

  const Plan& plan() const override { return *plan_; }
  int preferred_rows() const override;
  const std::shared_ptr<kv::PageMemory>& memory() const override { return memory_; }
  const CacheBytes& cache_bytes() const override { return cache_bytes_; }
  void clear_positions(std::byte* page, int first) const override;
  void prepare(std::span<const RunRow> rows) override;
  void prepare_source(std::span<const RunRow> rows) override;
  void run(const RunCall& call) override;
  void run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources,
                  std::span<const std::span<const float>> inputs) override;

 private:
  void run_rows(const RunCall& call);
  void run_section(Op::Section section, std::span<const RunRow> rows, std::span<const RunSequence> sequences);
  void name_kinds();
  Recorder::Work work_of(const Op& op, std::span<const RunRow> rows, std::span<const RunSequence> sequences) const;
  void reserve(Op::Section section, std::span<const RunRow> rows, std::span<const RunSequence> sequences);
  void give_inputs(const RunCall& call);
  void enter_tail(const RunCall& call);
  void copy_output(const RunCall& call);

  std::shared_ptr<const Plan> plan_;
  Recorder* recorder_;
  std::shared_ptr<kv::PageMemory> memory_ = std::make_shared<kv::HostMemory>();
  CacheBytes cache_bytes_;
  ValueIndex external_ = kNoIndex;  // the value that is written where the caller wants the output
  Placement placement_;
  SectionTables tables_;
  CpuValues values_;
  std::vector<int> kinds_;  // [op] of the recorder

  struct SectionMemory {
    std::vector<OpIndex> ops;
    std::vector<ValueIndex> values;  // that lie in its arena
    int64_t row_bytes = 0;
    AlignedBuffer arena;
    int64_t n_rows = -1;  // that the views are set for
  };
  std::array<SectionMemory, 3> sections_;
  std::vector<RunRow> tail_rows_;
  Waves waves_;
};

}  // namespace kvik::native
