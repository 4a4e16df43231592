#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"
#include "backend/native/execute/call.h"
#include "backend/native/plan/plan.h"
#include "kv/page_memory.h"

// In: a plan, its weights packed, and rows of sequences with the pages of their caches.
// Out: logits of the rows that want them; keys and values appended to the pages.
// Afterwards: a row's logits have the same bits for any other rows of the call, number of threads, instruction set or number of
// multiprocessors. A failed run has changed nothing before the first row's position.
namespace kvik::native {

// The layout of the pages of a sequence and of a source: kPagePositions positions of all layers. At least 64 bytes.
struct CacheBytes {
  size_t page = 64;
  size_t source_page = 64;
};

class OutputRows : public backend::RemoteLogits {};

// A plan that is ready to run: weights packed, values placed. Used by one thread at a time. After a first call of the same size, run()
// allocates nothing (except for plans with reference ops).
class Runner {
 public:
  virtual ~Runner() = default;

  virtual const Plan& plan() const = 0;
  int64_t output_size() const { return plan().output.size; }
  virtual int preferred_rows() const = 0;  // of a call, at most
  // Whether it can use pages for one position more than a call has (RunSequence::n_writable).
  virtual bool runs_ahead() const { return false; }

  // The memory of its sequences' pages and registers, and their sizes.
  virtual const std::shared_ptr<kv::PageMemory>& memory() const = 0;
  virtual const CacheBytes& cache_bytes() const = 0;
  // Zeroes the positions of a page from `first` on, in a host copy.
  virtual void clear_positions(std::byte* page, int first) const = 0;
  // Copies at least the first n positions of a page. From any thread if the memory is the host's.
  virtual void copy_positions(kv::PageAddress from, kv::PageAddress to, int n) const = 0;

  // Extends the position tables as far as these rows need, which may take long or run out of memory. Call it before run() and run_source().
  // Throws Error(kTooLarge) for positions that the model does not have.
  virtual void prepare(std::span<const RunRow> rows) = 0;
  virtual void prepare_source(std::span<const RunRow> rows) = 0;

  // Rows of a sequence must be in order. If it throws Error, only positions from the first row on, and registers, have been written.
  virtual void run(const RunCall& call) = 0;

  // Memory for outputs that stay on the device, or are not computed, until they are read, for a call with these candidates
  // (RunCall::n_candidates); null if the runner does not support it. `reused`: null or an earlier result of this function.
  virtual std::shared_ptr<OutputRows> keep_output(std::span<const int32_t> /*n_candidates*/, std::shared_ptr<OutputRows> /*reused*/) {
    return nullptr;
  }

  // Runs the source section and fills the pages of some sources. `inputs`: the given values for each row, [source_inputs][rows][size].
  virtual void run_source(std::span<const RunRow> rows, std::span<const RunSequence> sources,
                          std::span<const std::span<const float>> inputs) = 0;
};

}  // namespace kvik::native
