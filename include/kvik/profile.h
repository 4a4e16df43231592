#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Where the time of a model goes: pass one to LoadOptions::profile, run the model, read it. `--profile` and `--trace` print it.
namespace kvik {

class Recorder;

// All runs of one kind of operation.
struct OpTime {
  std::string op;  // "matmul q8 896x4864", "attend", "choose token", …
  int64_t calls = 0;
  double seconds = 0;
  double bytes = 0;            // of weights and cache that it read
  double multiplications = 0;  // of matrix products and attention
};

// Measuring costs a few percent at most. May be read at any time, also while the model runs.
class Profile {
 public:
  // `timeline`: also keep when each operation and each worker thread ran, for trace().
  explicit Profile(bool timeline = false);

  std::vector<OpTime> ops() const;  // most time first
  // JSON that chrome://tracing and ui.perfetto.dev open. The first million events are kept.
  std::string trace() const;

  // Opaque: what backends write to.
  const std::shared_ptr<Recorder>& recorder() const { return recorder_; }

 private:
  std::shared_ptr<Recorder> recorder_;
};

}  // namespace kvik
