#pragma once

#include <atomic>
#include <functional>

#include "analysis/signature.h"
#include "backend/graph/executor.h"
#include "backend/graph/feeds.h"
#include "backend/graph/graph_cache.h"
#include "backend/graph/slots.h"

namespace kvik::backend {

// Sequences that run together: same past length, same number of new tokens.
struct Batch {
  std::vector<const GraphCache*> caches;
  StepShape shape;
};

struct StepResult {
  std::shared_ptr<const Group> group;  // the sequences after the run, in the order of the batch
  Tensor logits;                       // the graph's output, in host memory
};

// Runs one batch through the right file of a model. Has no state of any sequence; any thread.
class StepRunner {
 public:
  using OpenFile = std::function<std::unique_ptr<Executor>(const analysis::File&)>;

  // Throws Error for inputs of unknown role and for states that are not returned. `signature` must outlive the step.
  StepRunner(const analysis::Signature& signature, const OpenFile& open);

  // `tokens` is [sequences, new tokens].
  StepResult run(const Batch& batch, std::span<const TokenId> tokens);

  // Token ids [E] or features, all of one shape, as one batch.
  std::vector<SourcePtr> encode(std::span<const Tensor> inputs);

  // The states of one sequence in host memory, and a group of one sequence from such states. Throws Error(kBadArgument) if they do not fit.
  std::vector<Tensor> states_of(const GraphCache& cache) const;
  std::shared_ptr<const Group> group_of(std::span<const Tensor> states, int length) const;

  const Slots& slots() const { return slots_; }
  bool has_cache() const { return !slots_.self.empty(); }
  bool pads_sources() const { return pads_sources_; }  // sources of different lengths can share a batch
  bool keeps_last_logits_only() const { return keeps_last_; }
  bool takes_single_tokens() const { return takes_single_; }  // its ids have a fixed length of one
  bool takes_batches() const { return takes_batches_; }       // its ids and states have a batch axis
  bool must_try_several() const { return must_try_; }         // only a run tells whether it takes several tokens at once
  SourceWork source_work() const { return {n_encoded_, n_cross_projected_}; }

 private:
  struct OpenedFile {
    const analysis::File* file = nullptr;
    std::shared_ptr<Executor> executor;
    bool counts_source = false;  // its source mask has the length of the encoder's input
  };
  struct Made {
    const analysis::Port* port = nullptr;
    ValuePtr value;
  };

  OpenedFile open(const analysis::File* file, const OpenFile& open) const;
  std::vector<NamedValue> feeds(const OpenedFile& opened, const Batch& batch, std::span<const TokenId> tokens, const SourcePack* sources);
  ValuePtr state_feed(const OpenedFile& opened, int input, const Batch& batch, const SourcePack* sources) const;
  ValuePtr carried_state(size_t slot, const Batch& batch, Executor& executor) const;
  ValuePtr embeddings(std::span<const TokenId> tokens, const StepShape& shape);
  std::shared_ptr<const SourcePack> sources_of(const Batch& batch, Executor& executor) const;
  ValuePtr next_state(const Slot& slot, const ValuePtr& past, const Made& made, Executor& executor) const;

  const analysis::Signature& signature_;
  Slots slots_;
  OpenedFile first_, later_, encoder_, embedding_;
  bool pads_sources_ = false;
  bool keeps_last_ = false;
  bool takes_single_ = false;
  bool takes_batches_ = true;
  bool must_try_ = false;
  std::atomic<int64_t> n_encoded_ = 0;
  std::atomic<int64_t> n_cross_projected_ = 0;
};

}  // namespace kvik::backend
