#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/source_cache.h"

namespace kvik::engine {

// A source and its encoder output.
struct EncodedSource {
  std::shared_ptr<const backend::Source> encoded;
  std::vector<TokenId> tokens;  // empty if it was not text
  uint64_t stream = 0;          // random number stream: makes the numbers of a source independent of its batch
};

// Throws Error(kBadArgument) for a source that is empty or has an id outside the vocabulary, Error(kTooLarge) for one that exceeds the
// model's positions.
void check_source(std::span<const TokenId> source, const backend::Traits& traits);

// Token ids as an encoder input.
Tensor source_input(std::span<const TokenId> source);

// Encodes the sources that are not in `cache` (may be null); all are checked before anything runs. Random number streams are numbered from
// 0.
std::vector<EncodedSource> encode_tokens(backend::Backend& backend, std::span<const std::vector<TokenId>> sources,
                                         SourceCache* cache = nullptr);
// Features without a batch axis, one tensor per source.
std::vector<EncodedSource> encode_features(backend::Backend& backend, std::span<const Tensor> features, SourceCache* cache = nullptr);

}  // namespace kvik::engine
