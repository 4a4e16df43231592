#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace kvik::text {

// Bounds how much the steps of a tokenizer may expand a text: a file with forty steps that each double it would otherwise take all memory.
// Every step may pass on kMaxFactor times the input, and kAlwaysAllowed bytes in any case: far more than Unicode normalization (11 times)
// or the byte alphabet (2 times) needs. Belongs to one thread.
class GrowthLimit {
 public:
  static constexpr size_t kMaxFactor = 16;
  static constexpr size_t kAlwaysAllowed = size_t{4} << 20;

  void start(size_t n_input_bytes, size_t n_steps) {
    n_input_bytes_ = 0;
    totals_.assign(n_steps, 0);
    add_input(n_input_bytes);
  }
  void add_input(size_t n_bytes) {
    n_input_bytes_ += n_bytes;
    limit_ = std::max(kAlwaysAllowed, std::min(n_input_bytes_, std::numeric_limits<size_t>::max() / kMaxFactor) * kMaxFactor);
  }

  // How many bytes `step` may still pass on.
  size_t room(size_t step) const { return limit_ - totals_[step]; }
  // Counts what `step` passes on. Throws Error(kBadModel) if it is more than room().
  void add(size_t step, size_t n_bytes) {
    if (n_bytes > room(step)) refuse();
    totals_[step] += n_bytes;
  }
  [[noreturn]] static void refuse();

 private:
  size_t n_input_bytes_ = 0;
  size_t limit_ = kAlwaysAllowed;
  std::vector<size_t> totals_;  // per step
};

}  // namespace kvik::text
