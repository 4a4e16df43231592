#pragma once

#include <cstddef>

namespace kvik::engine {

// How many rows a step computes beside single steps of others, learned from the time that steps take: chunks of prompts, and what encoders
// and embedders compute between two steps.
class PromptShare {
 public:
  PromptShare(size_t most_rows, double max_step_ms) : most_rows_(most_rows), max_step_ms_(max_step_ms), rows_(most_rows) {}

  size_t rows() const { return rows_; }
  void add_step(double ms);  // of a step that had as many rows as it might

 private:
  static constexpr size_t kFewestRows = 8;  // so that a prompt is computed however slow a step is
  size_t most_rows_;
  double max_step_ms_;
  size_t rows_;
};

}  // namespace kvik::engine
