#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sample/beam.h"
#include "sample/sampler.h"

namespace kvik::engine {

// How targets of one source are looked for: logits of its sequences in, which of them go on with which token out. Knows nothing of models
// and caches. Not for several threads at once.
class Search {
 public:
  virtual ~Search() = default;
  virtual bool done() const = 0;
  // How many sequences run, and so how many rows advance() wants.
  virtual size_t n_sequences() const = 0;
  // Start tokens and generated ones of a running sequence; holds until the next advance().
  virtual std::span<const TokenId> tokens(size_t sequence) const = 0;
  // `logits` is [n_sequences, vocab] as the model gave them; it is overwritten. What comes back is an entry for each sequence that now
  // runs; it holds until the next advance(). Throws Error(kBadModel) where nothing can be chosen.
  virtual std::span<const sample::BeamStep> advance(std::span<float> logits, sample::Workspace& workspace) = 0;
  // Best first; meant for when done().
  virtual std::vector<sample::Hypothesis> hypotheses() const = 0;
};

struct SearchOptions {
  sample::BeamOptions beams;   // max_length counts the start tokens; num_return_sequences counts samples where there are no beams
  std::vector<TokenId> start;  // what the decoder begins with
  // A target without beams ends after the token for which it is true (stop texts); may be empty.
  std::function<bool(std::span<const TokenId> generated)> ends;
};

struct SearchSource {
  std::span<const TokenId> tokens;  // of the source, for penalties that look at it; the owner keeps them
  uint64_t seed = 0;
  uint64_t stream = 0;  // of random numbers: a source draws the same ones whatever shares its batch
};

// Beams, ranked by log-probability. `sampler` must outlive it.
std::unique_ptr<Search> search_with_beams(const SearchOptions& options, const SearchSource& source, const sample::Sampler& sampler,
                                          size_t vocab);

// Token by token: the likeliest, or drawn where the sampler's temperature says so, num_return_sequences times.
std::unique_ptr<Search> search_by_choice(const SearchOptions& options, const SearchSource& source, const sample::Sampler& sampler,
                                         size_t vocab);

}  // namespace kvik::engine
