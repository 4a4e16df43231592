#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/search.h"
#include "kvik/error.h"

namespace kvik::engine {

struct TranslateOptions {
  SearchOptions search;
  bool always_beams = false;  // a search of one beam instead of choosing token by token, which must be the same
  uint64_t seed = 0;
  std::function<bool()> cancelled;  // asked between steps
};

// Thrown where `cancelled` said so.
class Cancelled : public Error {
 public:
  Cancelled() : Error(Code::kBadArgument, "translation was interrupted") {}
};

// A source that went through the encoder.
struct EncodedSource {
  std::shared_ptr<const backend::Source> encoded;  // null for a decoder, whose prompt is the start of the search
  std::vector<TokenId> tokens;                     // empty where it was no text
  uint64_t stream = 0;                             // of random numbers; see SearchSource
};

// The best targets of one source, best first. Ids without the start tokens, with the end token where there is one.
using Hypotheses = std::vector<sample::Hypothesis>;

// Each source runs through the encoder once. Their streams are numbered from 0.
// Throws Error(kBadArgument) for an empty source, Error(kTooLarge) for one beyond the model's positions, before anything runs.
std::vector<EncodedSource> encode_tokens(backend::Backend& backend, std::span<const std::vector<TokenId>> sources);
// Features without a batch axis, one tensor a source.
std::vector<EncodedSource> encode_features(backend::Backend& backend, std::span<const Tensor> features);

// Searches for the targets of sources; all step together. Beams are forks of the cache. `sampler` bans, forces and draws.
std::vector<Hypotheses> translate(backend::Backend& backend, std::span<const EncodedSource> sources, const sample::Sampler& sampler,
                                  const TranslateOptions& options);

// encode_tokens(), then translate().
std::vector<Hypotheses> translate(backend::Backend& backend, std::span<const std::vector<TokenId>> sources, const sample::Sampler& sampler,
                                  const TranslateOptions& options);

}  // namespace kvik::engine
