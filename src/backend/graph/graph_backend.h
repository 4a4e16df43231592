#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "backend/backend.h"
#include "backend/graph/step_runner.h"

namespace kvik::backend {

// Runs whole ONNX graphs with any executor: feeds every declared input, keeps the state outputs and feeds them to the next step.
//
// Sequences with the same past length and the same number of new tokens run as one batch; others run one after another. So tokens are
// never padded, and it does not matter on which side a graph expects padding.
class GraphBackend : public Backend {
 public:
  // Sets those members of `traits` that follow from the signature (vocabulary, positions, rewind).
  GraphBackend(analysis::Signature signature, Traits traits, const StepRunner::OpenFile& open);

  const Traits& traits() const override { return traits_; }
  int preferred_chunk() const override;
  std::unique_ptr<Cache> new_cache(std::shared_ptr<const Source> source, int length) override;
  bool can_continue(const Cache& cache, int length) const override;
  std::unique_ptr<Cache> fork(const Cache& cache) override;
  void rewind(Cache& cache, int length) override;
  RunStatus run(std::span<const Row> rows, std::span<Cache* const> caches, Logits& logits) override;
  std::vector<Tensor> contents(const Cache& cache) override;
  std::unique_ptr<Cache> restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) override;
  std::vector<std::shared_ptr<const Source>> encode(std::span<const Tensor> inputs) override;
  SourceWork source_work() const override { return runner_.source_work(); }

 private:
  struct Call;  // the state of one run()
  struct Stretch;

  bool is_beyond(int64_t length) const { return traits_.switch_after > 0 && length > traits_.switch_after; }
  void run_batch(Call& call, const std::vector<int>& sequences);
  void run_together(Call& call, const std::vector<int>& sequences);
  bool run_stretch(Call& call, const std::vector<int>& sequences,
                   const Stretch& stretch);  // false: the graph gave no logits for rows before the last
  bool takes_several(const SourcePtr& source, bool at_start);
  bool try_several(const SourcePtr& source, bool at_start);
  double probe_several(const SourcePtr& source, int n_before, bool one_position);

  analysis::Signature signature_;
  Traits traits_;
  StepRunner runner_;

  int64_t window_ = 0;  // capacity of the smallest window among the states; 0: no windows

  std::mutex probe_mutex_;
  std::optional<bool> several_at_start_, several_later_;  // whether several tokens in one run are right: at the start, after a past
  std::atomic<bool> one_position_ = false;                // see StepShape
  std::atomic<bool> batches_ = true;                      // false after a batch failed whose members run alone
  std::atomic<bool> gives_all_ = true;                    // false after the graph gave logits only for the last row
};

}  // namespace kvik::backend
