#pragma once

#include <memory>
#include <vector>

#include "engine/targets.h"
#include "verify/laws.h"

namespace kvik::laws {

struct TranslatorLaws {
  std::vector<Tensor> sources;  // inputs of the encoder, one tensor each; several, of unequal length if possible
  std::vector<TokenId> start;   // first tokens of the decoder
  std::vector<TokenId> target;  // tokens after them; at least 2
  std::shared_ptr<const sample::Sampler> sampler;
  sample::BeamOptions beams;  // of the searches; max_length counts the start tokens
  double tolerance = 1e-3;    // see LawBook::law
  std::vector<Peer> peers;
};

// Tries on an encoder-decoder: cached = uncached, any split of the target, rewound = never happened, forked = fresh,
// batch = alone (sources of unequal length), a beam of width 1 = greedy, the encoder runs once per source, and every peer agrees.
std::vector<Law> verify_translator(std::shared_ptr<backend::Backend> backend, const TranslatorLaws& options, const Watch& watch = {});

}  // namespace kvik::laws
