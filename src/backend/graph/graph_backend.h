#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "backend/backend.h"
#include "backend/graph/step.h"

namespace kvik::backend {

// Runs whole ONNX graphs as the exporter wrote them, whatever executes them: feeds every declared input, keeps what comes
// out as state, and moves it into the next step.
//
// Sequences with the same past length that get the same number of tokens run as one batch, without any padding of tokens;
// others run one after another. So a row never sees a padded neighbour, whichever side the graph would have wanted it on.
class GraphBackend : public Backend {
 public:
  // Of `traits`, what the signature tells (vocabulary, positions, rewind) is filled in here. A sequence that grows beyond
  // Traits::switch_after, or is rewound to below it, is run again from the start, in one run.
  GraphBackend(analysis::Signature signature, Traits traits, const Step::OpenFile& open);

  const Traits& traits() const override { return traits_; }
  int preferred_chunk() const override;
  std::unique_ptr<Cache> new_cache(std::shared_ptr<const Source> source) override;
  std::unique_ptr<Cache> fork(const Cache& cache) override;
  void rewind(Cache& cache, int length) override;
  void run(std::span<const Row> rows, std::span<Cache* const> caches, Logits& logits) override;
  std::vector<Tensor> contents(const Cache& cache) override;
  std::unique_ptr<Cache> restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) override;
  std::vector<std::shared_ptr<const Source>> encode(std::span<const Tensor> inputs) override;
  SourceWork source_work() const override { return step_.source_work(); }

 private:
  struct Call;  // one run() while it is under way
  struct Stretch;

  bool keeps_tokens() const { return !step_.has_cache() || traits_.switch_after > 0; }
  bool is_beyond(int64_t length) const { return traits_.switch_after > 0 && length > traits_.switch_after; }
  std::vector<Row> go_other_ways(std::span<const Row> rows, std::vector<GraphCache>& caches) const;
  void run_batch(Call& call, const std::vector<int>& sequences);
  void run_together(Call& call, const std::vector<int>& sequences);
  bool run_stretch(Call& call, const std::vector<int>& sequences, const Stretch& stretch);  // false: logits of inner rows are not given
  bool takes_several(const SourcePtr& source);
  bool probe_several(const SourcePtr& source);

  analysis::Signature signature_;
  Traits traits_;
  Step step_;

  std::mutex probe_mutex_;
  std::optional<bool> takes_several_;
  std::atomic<bool> batches_ = true;    // until a batch of two fails where its members run alone
  std::atomic<bool> gives_all_ = true;  // logits for every row; false once a graph gave only the last
};

}  // namespace kvik::backend
