#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace kvik::engine {

// What was found of one law: two ways to the same logits, run for real.
struct LawResult {
  std::string name;
  int cases = 0;
  bool holds = true;
  bool exact = true;               // equal bits in every case
  double max_difference = 0;       // largest difference of two logits
  double relative_difference = 0;  // the same, against the spread of the logits around it
  std::string detail;              // the first case that fails, in words
};

struct VerifyOptions {
  std::vector<TokenId> prompt;  // at least 2 tokens
  int context = 0;
  // The share of the logits' own spread by which two ways may differ; 0: equal bits are demanded.
  double tolerance = 1e-3;
  std::shared_ptr<backend::Backend> other;  // must agree with the first; null: not asked
  std::string other_name;
  std::function<void(const LawResult&)> report;  // each law as soon as it is known
};

// Proves or refutes on this model: cached = uncached, any split of the prompt, reset, rewind, fork, sessions side by side,
// batch = alone, and one backend = another.
std::vector<LawResult> verify_decoder(std::shared_ptr<backend::Backend> backend, const VerifyOptions& options);

}  // namespace kvik::engine
