#pragma once

#include <cstddef>

namespace kvik::engine {

// How many rows of prompts, encoders and embedders a step may compute while other streams decode, adapted to the measured time of steps.
class PromptShare {
 public:
  PromptShare(size_t most_rows, double max_step_ms) : most_rows_(most_rows), max_step_ms_(max_step_ms), rows_(most_rows) {}

  size_t rows() const { return rows_; }
  void add_step(double ms);  // the time of a step that used all of rows()

 private:
  static constexpr size_t kFewestRows = 8;  // so that prompts make progress however slow a step is
  size_t most_rows_;
  double max_step_ms_;
  size_t rows_;
};

}  // namespace kvik::engine
