#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "sample/beam.h"
#include "sample/sampler.h"

namespace kvik::engine {

struct TranslateOptions {
  sample::BeamOptions beams;        // max_length counts the start tokens
  std::vector<TokenId> start;       // what the decoder begins with
  std::function<bool()> cancelled;  // asked between steps
};

// The best targets of one source, best first. Ids without the start tokens, with the end token where there is one.
using Hypotheses = std::vector<sample::Hypothesis>;

// Encodes each source once, then searches for its targets; all sources step together. Beams are forks of the cache.
// Throws Error(kBadArgument) for an empty source, Error(kTooLarge) for one beyond the model's positions, before anything runs.
std::vector<Hypotheses> translate(backend::Backend& backend, std::span<const std::vector<TokenId>> sources, const sample::Sampler& sampler,
                                  const TranslateOptions& options);

}  // namespace kvik::engine
