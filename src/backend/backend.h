#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/token.h"
#include "base/token_logit.h"
#include "base/token_view.h"
#include "tensor/tensor.h"

namespace kvik {
class ThreadPool;
}

// One call runs everything: prompts, single steps, many sequences, beams. A backend handles tokens, positions and caches, but not sampling
// or text.
namespace kvik::backend {

// One token of one sequence. The rows of a sequence are adjacent, in the order of their positions, and continue its cache.
struct Row {
  TokenId token = 0;
  int position = 0;
  int sequence = 0;  // index into the caches of the call
  bool wants_logits = false;
  // Set for the first row of a sequence that branches off within the call: the index of the row, of another sequence, that it follows. Both
  // caches must have the same positions before the call; afterward this one contains the whole path. Only if Traits::can_branch.
  int after = -1;
  // The sequence may be rewound to before this row, so positions that earlier rows see must be kept.
  bool proposed = false;
  // How many of the largest logits will probably be read; 0: all. Logits::candidates() may then return them.
  int n_candidates = 0;
};

// kNoMemory: not enough cache memory for the run; nothing has changed.
enum class [[nodiscard]] RunStatus{kDone, kNoMemory};

// What a backend can do with the loaded model.
struct Traits {
  std::string name;            // "ort", "reference", "native"
  std::string device;          // "cpu", "cuda"
  bool exact = false;          // a row's logits have the same bits however they are computed
  bool exact_sources = false;  // the same for encoded sources; false if another runtime runs the encoder
  bool generates = true;       // false: the model has no decoder; only traits() may be called
  bool can_rewind = true;
  bool can_fork = true;
  bool can_branch = false;    // rows with Row::after are supported
  bool needs_source = false;  // encoder-decoder: every cache needs a source
  int vocab = 0;
  std::vector<TokenId> unsupported_tokens;  // these ids have logits but cannot be computed as input; never sample them
  int max_positions = 0;                    // 0: unknown
  int max_source_positions = 0;
  // Length switch (LongRoPE): for a sequence longer than this the model computes all positions differently; 0: no switch. A cache is then
  // valid on one side of the switch: see can_continue().
  int64_t switch_after = 0;
  // The length after each run decides, as in the file: in a longer sequence every run must end beyond switch_after.
  bool switches_per_run = false;
  // Format of saved caches, apart from the model: only a backend with the same cache_form can restore them.
  std::string cache_form;
  // Bytes, if weights and cache are not in the formats of the files; 0: as in the files.
  size_t weights_bytes = 0;
  size_t weights_bytes_per_token = 0;  // read per token of one sequence
  size_t cache_bytes_per_token = 0;    // stored per token, and read by every later token

  bool can_run(TokenId token) const {
    return token >= 0 && token < vocab && std::ranges::find(unsupported_tokens, token) == unsupported_tokens.end();
  }
};

// One encoded source; any number of caches may read it.
class Source {
 public:
  virtual ~Source() = default;
  virtual int n_positions() const = 0;
  virtual size_t size_bytes() const { return 0; }  // 0: unknown
};

// Work done for sources since the model was loaded. A source that is encoded once and reused adds 1 to each.
struct SourceWork {
  int64_t encoded = 0;          // sources run through the encoder
  int64_t cross_projected = 0;  // sources whose cross-attention keys and values were computed
};

// The state of one sequence. Use it only with the backend that created it, and from one thread at a time.
class Cache {
 public:
  virtual ~Cache() = default;
  virtual int length() const = 0;         // positions
  virtual size_t size_bytes() const = 0;  // keys, values and states of this sequence, shared ones included
};

// Memory of all caches of a backend; zeros if it does not count.
struct CacheMemory {
  size_t used_bytes = 0;       // in pages; shared ones count once
  size_t idle_bytes = 0;       // of these, only kept for reuse
  size_t allocated_bytes = 0;  // from the operating system
  size_t limit_bytes = 0;      // 0: none
  int64_t reused_positions = 0;
  int64_t evicted_positions = 0;
};

// Rows of logits that a device computed. Any thread.
class RemoteLogits {
 public:
  virtual ~RemoteLogits() = default;
  virtual std::span<const float> row(int row) = 0;  // copied from the device on first use
  // See Logits::candidates().
  virtual std::span<const TokenLogit> candidates(int row) const = 0;
};

// Rows of logits; the caller reuses the buffer. Rows on a device are copied when they are first read, by any thread.
class Logits {
 public:
  void resize(int n_rows, int vocab) {
    is_remote_ = false;
    n_rows_ = n_rows;
    vocab_ = vocab;
    reserve(n_rows, vocab);
  }
  // The rows are in `remote` from now on, until resize().
  void set_remote(std::shared_ptr<RemoteLogits> remote, int n_rows, int vocab) {
    remote_ = std::move(remote);
    is_remote_ = true;
    n_rows_ = n_rows;
    vocab_ = vocab;
  }
  const std::shared_ptr<RemoteLogits>& remote() const { return remote_; }  // of the last run that had one
  // Makes room for this many rows; their contents are unspecified. If the buffer grows, earlier rows are lost.
  void reserve(int n_rows, int vocab) {
    const size_t size = static_cast<size_t>(n_rows) * static_cast<size_t>(stride_of(vocab));
    if (size <= values_.size_bytes() / sizeof(float)) return;
    values_ = AlignedBuffer(size * sizeof(float));
  }
  int n_rows() const { return n_rows_; }
  int vocab() const { return vocab_; }
  int64_t stride() const { return stride_of(vocab_); }  // floats from one row to the next
  std::span<const float> row(int i) const {
    return is_remote_ ? remote_->row(i) : std::span<const float>(values_.as<float>() + i * stride(), static_cast<size_t>(vocab_));
  }
  std::span<float> writable_row(int i) { return {values_.as<float>() + i * stride(), static_cast<size_t>(vocab_)}; }  // after resize()
  // The largest logits of a row, if they are available without the whole row: sorted by logit and id, with all ties of the last one. May be
  // empty.
  std::span<const TokenLogit> candidates(int i) const { return is_remote_ ? remote_->candidates(i) : std::span<const TokenLogit>(); }

 private:
  static int64_t stride_of(int vocab) { return (int64_t{vocab} + 15) / 16 * 16; }  // rows begin at cache lines

  int n_rows_ = 0;
  int vocab_ = 0;
  AlignedBuffer values_;
  bool is_remote_ = false;
  std::shared_ptr<RemoteLogits> remote_;  // kept for the next run
};

// A loaded model. Any thread may call any method; calls on different caches are independent. A method that throws Error leaves all caches
// unchanged.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const Traits& traits() const = 0;

  // The largest number of rows of one sequence a call should have, to keep logits and scratch memory small.
  virtual int preferred_chunk() const = 0;

  // `source` is null unless the model is an encoder-decoder. `length` is what its sequence will have after the coming runs: it selects the
  // side of a length switch.
  virtual std::unique_ptr<Cache> new_cache(std::shared_ptr<const Source> source = nullptr, int length = 0) = 0;

  // Whether the positions of a cache are valid for a sequence that will have `length`. If not, they must be recomputed in a new cache: they
  // belong to the other side of the length switch, or pages outside a sliding window were freed that a rewind made visible again.
  virtual bool can_continue(const Cache& cache, int length) const = 0;

  // A copy of the sequence; later changes to either do not affect the other.
  virtual std::unique_ptr<Cache> fork(const Cache& cache) = 0;
  // The same, reusing the memory of the cache in `copy`, whose contents are lost. `copy` may be null.
  virtual void fork_into(const Cache& cache, std::unique_ptr<Cache>& copy) { copy = fork(cache); }

  // Drops all positions from `length` on.
  virtual void rewind(Cache& cache, int length) = 0;

  // Computes the rows and appends them to their caches, which can continue. `logits` gets one row per row with wants_logits, in order.
  virtual RunStatus run(std::span<const Row> rows, std::span<Cache* const> caches, Logits& logits) = 0;

  // ---- prefix sharing: computed positions are found by their tokens; backends that cannot share them do nothing

  // A cache with the longest cached prefix of `tokens`, for a sequence that will have `length`; null if there is none.
  virtual std::unique_ptr<Cache> find_prefix(const TokenView& /*tokens*/, int /*length*/) { return nullptr; }
  // Makes the positions of a cache, which contains `tokens`, available to find_prefix(). `whole`: all positions; otherwise only those that
  // can be shared without a copy when the sequence continues.
  virtual void share_prefix(Cache& /*cache*/, const TokenView& /*tokens*/, bool /*whole*/) {}
  // Shared positions of these tokens are never evicted. Returns how many there are.
  virtual int pin_prefix(std::span<const TokenId> /*tokens*/) { return 0; }
  // At most n tokens that followed these tokens in another sequence.
  virtual void find_continuation(std::span<const TokenId> /*tokens*/, size_t /*n*/, std::vector<TokenId>& found) { found.clear(); }
  virtual CacheMemory cache_memory() const { return {}; }
  virtual void limit_cache_memory(size_t /*bytes*/) {}  // 0: no limit; only if the backend manages the memory of its caches

  // The contents of a cache without a source, in host memory, in a backend-specific format; valid until the cache changes.
  virtual std::vector<Tensor> contents(const Cache& cache) = 0;

  // Creates a cache with these contents, which continues after `tokens`. Throws Error(kBadArgument) if their shapes do not fit the model;
  // values are not checked.
  virtual std::unique_ptr<Cache> restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) = 0;

  // Runs the encoder. `inputs`: token ids [E] (i64) or features without a batch axis (f32), one tensor per source.
  virtual std::vector<std::shared_ptr<const Source>> encode(std::span<const Tensor> inputs) = 0;

  virtual SourceWork source_work() const { return {}; }

  // Measures the bandwidth of a copy in the memory of its device (bytes read plus written); 0: it computes on the CPU.
  virtual double device_bandwidth_gb_per_s() { return 0; }

  // The backend's worker threads, which callers may use between runs; null if it has none.
  virtual ThreadPool* pool() { return nullptr; }
};

}  // namespace kvik::backend
