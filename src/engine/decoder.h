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
  int n_reused = 0;   // found in the cache instead of computed
  int n_decoded = 0;  // in decode_ms
  int n_generated = 0;
  int n_runs = 0;      // for n_decoded
  int n_proposed = 0;  // by speculation
  int n_accepted = 0;  // of these
  double mask_ms = 0;  // time of constraint masks
};

// One request: sequences that branch off one context, a strategy that continues them, and the result.
struct Stream {
  Stream(Sequence sequence, std::unique_ptr<Strategy> how) : strategy(std::move(how)) { branches.push_back(std::move(sequence)); }

  std::vector<Sequence> branches;            // one until the strategy forks it
  std::unique_ptr<Strategy> strategy;        // null: only pending tokens are computed
  std::unique_ptr<Speculation> speculation;  // null: none. Used while there is one branch, if the backend is exact and can rewind
  int n_candidates = 0;                      // without a strategy: how many of the largest logits will probably be read; 0: all
  bool recompute = false;                    // recompute everything at every step, for comparison
  std::optional<Finish> finish;              // set: the decode loop skips it
  std::exception_ptr error;                  // thrown by its strategy; other streams are not affected
  Timing timing;
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

enum class [[nodiscard]] StepStatus{
    kWorked,
    kIdle,      // no stream had work to do
    kNoMemory,  // not enough cache memory for a run; nothing has changed
};

// The decode loop. There is one per loaded model, shared by its sessions, and everything that runs the model goes through it: prompts,
// single steps, samples, beams, scoring. Any thread: steps of different threads are executed in order of arrival, and those that wait at
// the same time share the next run if the backend is exact, so that results do not depend on it.
class Decoder {
 public:
  // `recorder`: measures runs and the choice of tokens; may be null.
  explicit Decoder(std::shared_ptr<backend::Backend> backend, std::shared_ptr<Recorder> recorder = nullptr);

  backend::Backend& backend() const { return *backend_; }
  const std::shared_ptr<backend::Backend>& shared_backend() const { return backend_; }

  SourceCache& source_cache() { return source_cache_; }

  // One iteration over streams of this decoder: plans rows (single steps of all, chunks of prompts), runs them, commits. Streams may be
  // added and removed between two calls. If the run fails, nothing has changed. `max_prompt_rows`: limits prompt rows to keep the step
  // short; 0: as many as the backend prefers.
  StepStatus step(std::span<Stream* const> streams, size_t max_prompt_rows = 0);
  size_t preferred_rows() const;  // of one step

  Error no_memory() const;  // for callers that cannot return a status

  // Runs rows that the caller has planned; waits its turn like a step.
  backend::RunStatus run(std::span<const backend::Row> rows, std::span<backend::Cache* const> caches, backend::Logits& logits);

  // Runs streams to their end. If `cancelled` returns true, those still running end with Finish::kCancelled. Throws the first error.
  void finish(std::span<Stream* const> streams, const std::function<bool()>& cancelled = nullptr);

  // Computes tokens for a stream that has one branch, in chunks: all of them or none.
  AppendStatus append(Stream& stream, std::span<const TokenId> tokens, const Watch& watch = {});
  // Computes the pending tokens of a stream that has one branch; kDone or kNoMemory.
  AppendStatus compute(Stream& stream);
  // Appends one token to each stream, in one run unless a sequence must be recomputed: to all of them or to none.
  AppendStatus append_each(std::span<Stream* const> streams, std::span<const TokenId> tokens);

 private:
  // The rows of one branch in the next run.
  struct Share {
    Stream* stream;
    size_t branch;
    int first_logits;
    int n_logits;
    int n_proposed;  // proposed rows among them, including those of a second continuation
  };

  // How a stream continues.
  struct Choice {
    Stream* stream;
    std::span<const sample::Continuation> continuations;
  };

  // A step of some streams, or rows that a caller has planned, and its result.
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
  // State of the running job:
  std::vector<Stream*> streams_;
  size_t n_steps_ = 0;
  std::chrono::steady_clock::time_point step_began_;
  std::vector<Share> shares_;
  int n_proposed_ = 0;
  bool has_prompts_ = false;  // some rows are not single steps
  double run_ms_ = 0;
  std::vector<backend::Row> rows_;
  std::vector<backend::Cache*> caches_;
  LogitsPool pool_;
  std::vector<Choice> choices_;
  Workers workers_;
};

}  // namespace kvik::engine
