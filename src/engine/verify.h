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
  std::vector<Peer> peers;
  LawBook::Report report;
};

// How far a row's logits move, as a share of their spread, when later rows share its run; nothing is cached on either side. Where a file
// quantises its activations over all rows of a run, that is the file's own doing and no law can hold more closely.
double moved_by_company(const std::shared_ptr<backend::Backend>& backend, std::span<const TokenId> prompt);

// Proves or refutes on this model: cached = uncached, any split of the prompt, reset, rewind, fork, sessions side by side,
// batch = alone, and that every peer agrees.
std::vector<LawResult> verify_decoder(std::shared_ptr<backend::Backend> backend, const VerifyOptions& options);

}  // namespace kvik::engine
