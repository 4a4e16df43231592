#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/native/execute/cpu/approximate_head.h"
#include "backend/native/execute/cpu/row_parts.h"
#include "backend/native/execute/cpu/row_runner.h"
#include "backend/native/execute/cpu/thread_choice.h"
#include "backend/native/execute/execute.h"
#include "backend/native/execute/waves.h"

namespace kvik::native {

// Runs a plan on the kernels of an instruction set, on all threads of a pool: op by op, each on all threads, or, where there are many rows
// and few weights, each thread all ops on some of the rows.
class CpuRunner final : public Runner {
 public:
  struct Parts {
    std::shared_ptr<const Plan> plan;
    std::vector<LoadedWeight> weights;
    cpu::KvFormat kv_format = cpu::KvFormat::kF32;
    const cpu::CpuKernels* kernels = nullptr;
    ThreadPool* pool = nullptr;    // outlives it
    Recorder* recorder = nullptr;  // the same; null: nothing is measured
    bool chooses_threads = false;  // calls of few rows use fewer threads if that is faster
  };
  explicit CpuRunner(Parts parts);

  const Plan& plan() const override { return *cpu_plan_.plan; }
  int preferred_rows() const override;
  const std::shared_ptr<kv::PageMemory>& memory() const override { return memory_; }
  const CacheBytes& cache_bytes() const override { return cache_bytes_; }
  void clear_positions(std::byte* page, int first) const override;
  void copy_positions(kv::PageAddress from, kv::PageAddress to, int n) const override;
  void prepare(std::span<const RunRow> rows) override;
  void prepare_source(std::span<const RunRow> rows) override;
  void run(const RunCall& call) override;
  std::shared_ptr<OutputRows> keep_output(std::span<const int32_t> n_candidates, std::shared_ptr<OutputRows> reused) override;
  void run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources,
                  std::span<const std::span<const float>> inputs) override;

 private:
  void run_all(const RunCall& call);
  void run_rows(const RunCall& call);
  bool cut(std::span<const RunRow> rows, int64_t weight_bytes);
  template <class RunPart>
  void run_parts(RunPart run_part);
  RunCall part_of(const RunCall& call, size_t part);

  const CpuPlan cpu_plan_;
  ThreadPool& pool_;
  ThreadPool alone_{1};  // for ops inside a part
  std::shared_ptr<kv::PageMemory> memory_ = std::make_shared<kv::HostMemory>();
  CacheBytes cache_bytes_;
  SectionTables tables_;
  std::optional<OpRecorder> recorder_;
  RowRunner whole_;
  std::vector<RowPart> parts_;
  std::vector<std::unique_ptr<RowRunner>> part_runners_;
  std::vector<std::vector<int32_t>> part_wanted_;
  Waves waves_;
  std::optional<ThreadChoice> threads_;
  size_t n_rows_before_ = 0;  // of the last call of few rows
  bool has_made_head_ = false;
  std::shared_ptr<const ApproximateHead> head_;  // null: not made yet, or all logits are computed
};

}  // namespace kvik::native
