#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/recorder.h"
#include "engine/job_queue.h"
#include "engine/sequence.h"
#include "engine/source_cache.h"
#include "engine/speculation.h"
#include "engine/strategy.h"
#include "kvik/error.h"

namespace kvik::engine {

struct Timing {
  double prefill_ms = 0;
  double first_token_ms = 0;
  double decode_ms = 0;
  int n_prompt = 0;   // computed
  int n_reused = 0;   // found in the cache
  int n_decoded = 0;  // in decode_ms
  int n_generated = 0;
  int n_runs = 0;      // for n_decoded
  int n_proposed = 0;  // by speculation
  int n_accepted = 0;  // of these
  double mask_ms = 0;  // of the strategy
};

// One request: sequences that branch off one context, a strategy that continues them, and what became of it.
struct Stream {
  Stream(Sequence sequence, std::unique_ptr<Strategy> how) : strategy(std::move(how)) { branches.push_back(std::move(sequence)); }

  std::vector<Sequence> branches;            // one until the strategy forks it
  std::unique_ptr<Strategy> strategy;        // null: only computes what is pending
  std::unique_ptr<Speculation> speculation;  // null: none. Used while there is one branch, if the backend is exact and can rewind
  int n_candidates = 0;                      // without a strategy: of the largest logits, that are likely to be all that is read; 0: all
  bool recompute = false;                    // everything at every step, for comparison
  std::optional<Finish> finish;              // set: the decode loop passes it over
  std::exception_ptr error;                  // why its strategy could not go on; other streams are not disturbed
  Timing timing;
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

enum class [[nodiscard]] StepStatus{
    kWorked,
    kIdle,      // no stream had anything to do
    kNoMemory,  // the limit on the memory of caches allows no run; nothing has changed
};

// The decode loop. There is one per loaded model, shared by its sessions, and everything that runs the model goes through it: prompts,
// single steps, samples, beams, scoring. Any thread: steps of different threads wait for each other in the order in which they came, and
// those that wait together share the next run if the backend is exact, so that their results do not depend on it.
class Decoder {
 public:
  // `recorder`: gets the time that runs and the choice of tokens take; may be null.
  explicit Decoder(std::shared_ptr<backend::Backend> backend, std::shared_ptr<Recorder> recorder = nullptr);

  backend::Backend& backend() const { return *backend_; }
  const std::shared_ptr<backend::Backend>& shared_backend() const { return backend_; }

  SourceCache& source_cache() { return source_cache_; }

  // One iteration over streams of this decoder: plans rows (single steps of all, chunks of prompts), runs them, commits. Other streams
  // may come and go between two calls. If the run fails nothing has changed. `max_prompt_rows`: fewer than the backend prefers, so that
  // the step is short; 0: as many as it prefers.
  StepStatus step(std::span<Stream* const> streams, size_t max_prompt_rows = 0);
  size_t preferred_rows() const;  // of one step

  Error no_memory() const;  // for callers that have no status to return

  // Rows that a caller has planned itself; waits its turn as a step does.
  backend::RunStatus run(std::span<const backend::Row> rows, std::span<backend::Cache* const> caches, backend::Logits& logits);

  // Runs streams to their end. Those that are running when `cancelled` returns true end with Finish::kCancelled. Throws the first error.
  void finish(std::span<Stream* const> streams, const std::function<bool()>& cancelled = nullptr);

  // Computes tokens for a stream that has one branch, in chunks: all of them or none.
  AppendStatus append(Stream& stream, std::span<const TokenId> tokens, const Watch& watch = {});
  // What is pending in a stream that has one branch; kDone or kNoMemory.
  AppendStatus compute(Stream& stream);
  // One token for each stream, in one run unless a sequence must be recomputed: all of them or none.
  AppendStatus append_each(std::span<Stream* const> streams, std::span<const TokenId> tokens);

 private:
  // The rows of one branch in the next run.
  struct Share {
    Stream* stream;
    size_t branch;
    int first_logits;
    int n_logits;
    int n_proposed;  // of the last rows, with those of a second continuation
  };

  // What a stream goes on with.
  struct Choice {
    Stream* stream;
    std::span<const sample::Continuation> continuations;
  };

  // A step of some streams, or rows that were planned elsewhere; what became of it.
  struct Job {
    std::span<Stream* const> streams;
    std::span<const backend::Row> rows;
    std::span<backend::Cache* const> caches;
    backend::Logits* logits = nullptr;
    size_t max_prompt_rows = 0;
    bool joins = false;
    bool done = false;
    StepStatus status = StepStatus::kWorked;
    std::exception_ptr error;
  };

  void do_jobs(std::span<Job* const> jobs) noexcept;
  void do_alone(Job& job) noexcept;
  void submit(Job& job);
  StepStatus step_together(std::span<Stream* const> streams, size_t max_prompt_rows);
  void propose(Stream& stream) const;
  void reserve_logits(const LogitsBuffer::Ref& logits) const;
  backend::RunStatus run_planned(const LogitsBuffer::Ref& logits);
  void plan(std::span<Stream* const> streams, size_t max_prompt_rows);
  size_t fewest_rows(const Sequence& sequence) const;
  void plan_branch(Stream& stream, size_t branch, size_t n_rows);
  int plan_other(Stream& stream, int n_tokens);
  StepStatus commit(std::span<Stream* const> streams, const LogitsBuffer::Ref& logits);
  void commit_rows(const Share& share, const LogitsBuffer::Ref& logits);
  void choose(Choice& choice) noexcept;
  void advance(const Choice& choice);
  void continue_branches(Stream& stream, std::span<const sample::Continuation> continuations);

  std::shared_ptr<backend::Backend> backend_;
  std::shared_ptr<Recorder> recorder_;
  int choose_kind_ = 0, run_kind_ = 0;
  SourceCache source_cache_;
  JobQueue<Job> queue_;
  // Of the job that runs:
  std::vector<Stream*> streams_;
  size_t n_steps_ = 0;
  std::chrono::steady_clock::time_point step_began_;
  std::vector<Share> shares_;
  int n_proposed_ = 0;
  bool has_prompts_ = false;  // rows that are not of single steps
  double run_ms_ = 0;
  std::vector<backend::Row> rows_;
  std::vector<backend::Cache*> caches_;
  LogitsPool pool_;
  std::vector<Choice> choices_;
  Workers workers_;
};

}  // namespace kvik::engine
