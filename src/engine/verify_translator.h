#pragma once

#include <memory>
#include <vector>

#include "engine/laws.h"
#include "engine/targets.h"

namespace kvik::engine {

struct VerifyTranslatorOptions {
  std::vector<Tensor> sources;  // what the encoder reads, one tensor each; several, of unequal length where that can be
  std::vector<TokenId> start;   // what the decoder begins with
  std::vector<TokenId> target;  // goes on from there: the decoder's tokens on which it is proved; at least 2
  std::shared_ptr<const sample::Sampler> sampler;
  sample::BeamOptions beams;  // of the searches; max_length counts the start tokens
  double tolerance = 1e-3;    // see LawBook::law
  std::vector<Peer> peers;
  LawBook::Report report;
};

// Proves or refutes on an encoder-decoder: cached = uncached, any split of the target, rewound = never happened, forked = fresh,
// batch = alone (sources of unequal length), a beam of width 1 = greedy, the encoder runs once a source, and every peer agrees.
std::vector<LawResult> verify_translator(std::shared_ptr<backend::Backend> backend, const VerifyTranslatorOptions& options);

}  // namespace kvik::engine
