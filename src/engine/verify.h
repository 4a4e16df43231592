#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/laws.h"

namespace kvik::engine {

struct VerifyOptions {
  std::vector<TokenId> prompt;  // at least 2 tokens
  int context = 0;
  // The share of the logits' own spread by which two ways may differ; 0: equal bits are demanded.
  double tolerance = 1e-3;
  double tolerance_to_other = 1e-3;         // the same between two backends
  std::shared_ptr<backend::Backend> other;  // must agree with the first; null: not asked
  std::string other_name;
  LawBook::Report report;
};

// Proves or refutes on this model: cached = uncached, any split of the prompt, reset, rewind, fork, sessions side by side,
// batch = alone, and one backend = another.
std::vector<LawResult> verify_decoder(std::shared_ptr<backend::Backend> backend, const VerifyOptions& options);

}  // namespace kvik::engine
