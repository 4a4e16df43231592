#pragma once

#include <memory>
#include <vector>

#include "engine/strategy.h"

namespace kvik::engine {

// Beams, ranked by log-probability.
class BeamStrategy final : public Strategy {
 public:
  // `source`: tokens that an encoder read, for penalties that look at them. Throws Error(kBadArgument) if options are out of range.
  BeamStrategy(std::shared_ptr<const sample::Sampler> sampler, sample::BeamOptions options, size_t prompt_length,
               std::vector<TokenId> source = {});

  std::span<const sample::Continuation> advance(std::span<const Sequence> branches, Workers& workers) override;
  Finish finish() const override;
  std::vector<Target> targets() const override;

 private:
  std::shared_ptr<const sample::Sampler> sampler_;
  sample::BeamSearch beams_;
  std::vector<TokenId> source_;
  std::vector<float> log_probs_;  // [n_beams, vocab]
  std::vector<std::span<const TokenId>> tokens_;
};

}  // namespace kvik::engine
