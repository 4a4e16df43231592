#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "verify/laws.h"

namespace kvik::laws {

struct DecoderLaws {
  std::vector<TokenId> prompt;  // at least 2 tokens
  int context = 0;
  // Greatest difference of two logits, as a share of their standard deviation; 0: equal bits are required.
  double tolerance = 1e-3;
  std::vector<Peer> peers;
};

// How much a row's logits change, as a share of their standard deviation, if later rows share its run; nothing is cached on either side.
// A file that quantizes its activations over all rows of a run does this itself, and no law can hold more closely.
double batch_sensitivity(const std::shared_ptr<backend::Backend>& backend, std::span<const TokenId> prompt);

// Tries on a decoder: cached = uncached, any split of the prompt, reset, rewind, fork, save, sessions side by side, batch = alone, prefix
// hit = miss, speculative = plain, trees, and that every peer agrees.
std::vector<Law> verify_decoder(std::shared_ptr<backend::Backend> backend, const DecoderLaws& options, const Watch& watch = {});

}  // namespace kvik::laws
