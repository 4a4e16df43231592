#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"
#include "backend/native/execute/call.h"
#include "backend/native/plan/plan.h"
#include "kv/page_memory.h"

// In: a plan, its weights packed, and rows of sequences with the pages of their caches.
// Out: logits of the rows that want them; keys and values appended to the pages.
// Afterwards: a row's logits do not depend on the rows beside it, on threads, on the instruction set or on multiprocessors: equal bits. A
// failed run has changed nothing before the first row's position.
namespace kvik::native {

// What runners keep in the pages of a sequence and of a source: kPagePositions positions of all layers. At least 64 bytes.
struct CacheBytes {
  size_t page = 64;
  size_t source_page = 64;
};
inline constexpr int kPagePositions = 32;

class OutputRows : public backend::RemoteLogits {};

// A plan ready to run: weights packed, values placed. For one thread at a time. run() allocates nothing once it has seen a call of that
// size (plans with reference operations aside).
class Runner {
 public:
  virtual ~Runner() = default;

  virtual const Plan& plan() const = 0;
  int64_t output_size() const { return plan().output.size; }
  virtual int preferred_rows() const = 0;  // of a call, at most

  // Where pages and registers of its sequences are, and how large they are.
  virtual const std::shared_ptr<kv::PageMemory>& memory() const = 0;
  virtual const CacheBytes& cache_bytes() const = 0;
  // Zeros for the positions of a page from `first` on, in a host copy of it.
  virtual void clear_positions(std::byte* page, int first) const = 0;

  // Computes the position tables as far as these rows need them: the only thing of a run that may take long or fail for want of memory.
  // Before every run() and run_source() of such rows. Throws Error(kTooLarge) for positions that the model does not have.
  virtual void prepare(std::span<const RunRow> rows) = 0;
  virtual void prepare_source(std::span<const RunRow> rows) = 0;

  // Rows of a sequence come in order. Throws Error and has then written nothing but positions from the first row on, and registers.
  virtual void run(const RunCall& call) = 0;

  // Memory for outputs that stay where they are computed until they are read, for a call with these candidates (RunCall::n_candidates);
  // null if they cannot stay there. `reused` is null or what this runner made before.
  virtual std::shared_ptr<OutputRows> keep_output(std::span<const int32_t> /*n_candidates*/, std::shared_ptr<OutputRows> /*reused*/) {
    return nullptr;
  }

  // The source's section for the positions of some sources, whose pages it fills: `inputs` are the values given for each row,
  // [source_inputs][rows][size].
  virtual void run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources,
                          std::span<const std::span<const float>> inputs) = 0;
};

}  // namespace kvik::native
