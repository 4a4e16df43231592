#include "engine/sources.h"

#include <fmt/format.h>

#include "kvik/error.h"

namespace kvik::engine {

void check_source(std::span<const TokenId> source, const backend::Traits& traits) {
  if (source.empty()) throw Error(Code::kBadArgument, "a source is empty; at least one token was expected");
  if (traits.max_source_positions > 0 && static_cast<int>(source.size()) > traits.max_source_positions)
    throw Error(Code::kTooLarge,
                fmt::format("a source has {} tokens; the model has positions for {}", source.size(), traits.max_source_positions));
  for (const TokenId id : source) {
    // The encoder's own vocabulary may be larger than the decoder's; ids outside both are an error of the encoder.
    if (id < 0) throw Error(Code::kBadArgument, fmt::format("token id {} is outside the vocabulary; 0 or more was expected", id));
  }
}

Tensor source_input(std::span<const TokenId> source) {
  const std::vector<int64_t> ids(source.begin(), source.end());
  return Tensor::of({static_cast<int64_t>(ids.size())}, ids);
}

std::vector<EncodedSource> encode_tokens(backend::Backend& backend, std::span<const std::vector<TokenId>> sources, SourceCache* cache) {
  std::vector<Tensor> inputs;
  for (const std::vector<TokenId>& source : sources) {
    check_source(source, backend.traits());
    inputs.push_back(source_input(source));
  }
  std::vector<EncodedSource> encoded = encode_features(backend, inputs, cache);
  for (size_t i = 0; i < encoded.size(); ++i) encoded[i].tokens = sources[i];
  return encoded;
}

std::vector<EncodedSource> encode_features(backend::Backend& backend, std::span<const Tensor> features, SourceCache* cache) {
  std::vector<EncodedSource> sources;
  for (std::shared_ptr<const backend::Source>& encoded : cache != nullptr ? cache->encode(backend, features) : backend.encode(features))
    sources.push_back({std::move(encoded), {}, sources.size()});
  return sources;
}

}  // namespace kvik::engine
