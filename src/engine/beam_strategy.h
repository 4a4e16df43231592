#pragma once

#include <memory>
#include <vector>

#include "engine/constrained.h"
#include "engine/strategy.h"

namespace kvik::engine {

// Beams, ranked by log-probability.
class BeamStrategy final : public Strategy {
 public:
  // `source`: tokens that an encoder read, for penalties that look at them. Throws Error(kBadArgument) if options are out of range.
  BeamStrategy(std::shared_ptr<const sample::Sampler> sampler, sample::BeamOptions options, size_t prompt_length,
               std::vector<TokenId> source = {}, std::shared_ptr<constrain::TokenConstraint> constraint = nullptr);

  std::span<const sample::Continuation> advance(std::span<const Sequence> branches, Workers& workers) override;
  double mask_ms() const override { return mask_ms_; }
  Finish finish() const override;
  std::vector<Target> targets() const override;

 private:
  // Of one beam; empty: the beam only fills a place, and nothing follows.
  using Text = std::optional<ConstrainedText>;
  void find_allowed();
  sample::History history_of(size_t beam) const;
  bool find_best(std::span<const Sequence> branches, Workers& workers);
  void find_log_probs(std::span<const Sequence> branches, std::span<float> log_probs, Workers& workers) const;
  void continue_texts(std::span<const sample::Continuation> continuations);

  std::shared_ptr<const sample::Sampler> sampler_;
  sample::BeamSearch beams_;
  std::vector<TokenId> source_;
  std::vector<std::span<const TokenId>> tokens_;
  std::vector<std::vector<TokenLogit>> best_;  // [beam]
  std::vector<Text> texts_;                    // one per beam; none without a constraint
  std::vector<constrain::Allowed> allowed_;    // of texts_
  double mask_ms_ = 0;
};

}  // namespace kvik::engine
