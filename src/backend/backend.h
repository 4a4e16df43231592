#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "tensor/tensor.h"

// One call runs everything: prompts, single steps, many sequences, beams. A backend knows tokens, positions and caches; it knows
// nothing of sampling or text.
namespace kvik::backend {

// One token of one sequence. The rows of a sequence stand together, in the order of their positions, and continue its cache.
struct Row {
  TokenId token = 0;
  int position = 0;
  int sequence = 0;  // index into the caches of the call
  bool wants_logits = false;
};

// What a backend can do is asked, never assumed.
struct Traits {
  std::string name;            // "ort", "reference", "native"
  std::string device;          // "cpu", "cuda"
  bool exact = false;          // the laws hold bit for bit: a row's logits do not depend on how they were computed
  bool exact_sources = false;  // and so is what becomes of a source; not so where another runtime computes the encoder
  bool can_rewind = true;
  bool can_fork = true;
  bool needs_source = false;  // an encoder-decoder: every cache needs a source
  int vocab = 0;
  std::vector<TokenId> unreadable_tokens;  // that it gives logits for and cannot continue from; nothing may choose them
  int max_positions = 0;                   // 0: unknown
  int max_source_positions = 0;
  // Some models compute every position another way once the whole sequence is longer than this; 0: never. The logits of a row then depend
  // on the length that its sequence has after the call, and what was cached before is computed again.
  int64_t switch_after = 0;
  // What the contents of its caches depend on beside the model: a backend of the same form can go on with them.
  std::string cache_form;
  // Bytes, where the backend keeps other ones than the files do; 0: as there.
  size_t weights_bytes = 0;
  size_t weights_bytes_per_token = 0;  // read for one token of one sequence
  size_t cache_bytes_per_token = 0;    // kept for one, and read for every later one
};

// What an encoder made of one source; any number of caches may read it.
class Source {
 public:
  virtual ~Source() = default;
  virtual int n_positions() const = 0;
};

// What sources have cost since the model was loaded. A source that is encoded once and kept adds 1 to each.
struct SourceWork {
  int64_t encoded = 0;          // sources that went through the encoder
  int64_t cross_projected = 0;  // sources whose keys and values of cross attention were computed
};

// The state of one sequence. Belongs to the backend that made it; used by one thread at a time.
class Cache {
 public:
  virtual ~Cache() = default;
  virtual int length() const = 0;         // positions
  virtual size_t size_bytes() const = 0;  // of the keys, values and states that this sequence refers to
};

// Rows of logits that the caller keeps and reuses.
class Logits {
 public:
  void resize(int n_rows, int vocab) {
    n_rows_ = n_rows;
    vocab_ = vocab;
    values_.resize(static_cast<size_t>(n_rows) * static_cast<size_t>(vocab));
  }
  int n_rows() const { return n_rows_; }
  int vocab() const { return vocab_; }
  std::span<float> row(int i) { return std::span(values_).subspan(offset(i), static_cast<size_t>(vocab_)); }
  std::span<const float> row(int i) const { return std::span(values_).subspan(offset(i), static_cast<size_t>(vocab_)); }

 private:
  size_t offset(int i) const { return static_cast<size_t>(i) * static_cast<size_t>(vocab_); }

  int n_rows_ = 0;
  int vocab_ = 0;
  std::vector<float> values_;
};

// A loaded model. Any thread may call any method; calls on different caches do not disturb each other.
// Every method throws Error and then leaves all caches as they were.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const Traits& traits() const = 0;

  // How many rows of one sequence a call should hold at most, so that logits and scratch stay small.
  virtual int preferred_chunk() const = 0;

  // `source` is null but for encoder-decoders.
  virtual std::unique_ptr<Cache> new_cache(std::shared_ptr<const Source> source = nullptr) = 0;

  // A second sequence with the same past; neither sees what the other does from now on.
  virtual std::unique_ptr<Cache> fork(const Cache& cache) = 0;

  // Forgets every position from `length` on.
  virtual void rewind(Cache& cache, int length) = 0;

  // Computes the rows and appends them to their caches. `logits` gets one row for each row that wants them, in order.
  virtual void run(std::span<const Row> rows, std::span<Cache* const> caches, Logits& logits) = 0;

  // What a cache without a source holds, on the host, in a form of the backend's own; valid until the cache changes.
  virtual std::vector<Tensor> contents(const Cache& cache) = 0;

  // A cache that goes on after `tokens`, whose cache had these contents. Throws Error(kBadArgument) where they do not fit the model; what
  // they hold is not checked.
  virtual std::unique_ptr<Cache> restore(std::span<const TokenId> tokens, std::span<const Tensor> contents) = 0;

  // Runs the encoder: `inputs` are token ids [E] (i64) or features without a batch axis (f32), one tensor a source.
  virtual std::vector<std::shared_ptr<const Source>> encode(std::span<const Tensor> inputs) = 0;

  virtual SourceWork source_work() const { return {}; }
};

}  // namespace kvik::backend
