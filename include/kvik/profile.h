#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Measures where the time of a model is spent: set LoadOptions::profile, run the model, read ops(). `--profile` and `--trace` use it.
namespace kvik {

class Recorder;

// All executions of one kind of operation.
struct OpTime {
  std::string op;  // "matmul q8 896x4864", "attend", "choose token", …
  int64_t calls = 0;
  double seconds = 0;
  double bytes = 0;            // weights and cache read
  double multiplications = 0;  // of matrix products and attention
};

// Costs a few percent of the time at most. Any thread may read it at any time, even while the model runs.
class Profile {
 public:
  // `timeline`: also record when each operation and each worker thread ran, for trace().
  explicit Profile(bool timeline = false);

  std::vector<OpTime> ops() const;  // most time first
  // JSON for chrome://tracing and ui.perfetto.dev, with the first million events.
  std::string trace() const;

  // Opaque: used by the library.
  const std::shared_ptr<Recorder>& recorder() const { return recorder_; }

 private:
  std::shared_ptr<Recorder> recorder_;
};

}  // namespace kvik
