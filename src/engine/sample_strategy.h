#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/constrained.h"
#include "engine/strategy.h"
#include "engine/text_output.h"
#include "kvik/options.h"

namespace kvik::engine {

// What ends a sequence.
struct StopConditions {
  std::vector<TokenId> stop_ids;  // with the model's own end tokens
  size_t max_length = 0;          // prompt included
  NewTextOutput text;             // empty: no stop texts
};

struct SampleOptions {
  StopConditions stop;
  size_t prompt_length = 0;
  std::vector<TokenId> source;                                       // tokens of the encoder's input, for penalties that use them
  std::shared_ptr<constrain::TokenConstraint> constraint = nullptr;  // null: any tokens
  int n_samples = 1;                                                 // sequences drawn from one prompt
  double length_penalty = 1.0;                                       // of scores
  bool scores = true;                                                // false: do not compute scores, which saves a pass over the logits
  std::optional<int> logprobs;  // for the first sequence: report log-probabilities of its tokens and of this many most likely ones
  uint64_t seed = 0;
  uint64_t stream = 0;  // random number stream: makes the numbers of a request independent of other requests
};

// Generates token by token, greedily or by sampling; one sequence or several.
class SampleStrategy final : public Strategy {
 public:
  // Throws Error(kBadArgument) if options are out of range.
  SampleStrategy(std::shared_ptr<const sample::Sampler> sampler, SampleOptions options);

  int n_candidates() const override;
  std::span<const sample::Continuation> advance(std::span<const Sequence> branches, Workers& workers) override;
  double mask_ms() const override;
  Finish finish() const override { return samples_.front().finish; }
  std::vector<Target> targets() const override;

  // For streaming the first sequence: its last token, and the text that this token completed.
  const GeneratedToken& last_token() const { return last_; }
  std::string_view piece() const { return samples_.front().piece; }
  std::string flush() { return samples_.front().text ? samples_.front().text->flush() : std::string(); }

 private:
  struct Sample {
    explicit Sample(sample::Rng random) : rng(random) {}
    sample::Rng rng;
    double sum = 0;  // of log-probabilities
    std::unique_ptr<TextOutput> text;
    std::optional<ConstrainedText> constrained;
    std::string_view piece;
    TokenId last = 0;
    bool done = false;
    Finish finish = Finish::kLength;
    std::vector<TokenId> ids;  // when done
  };

  void choose(Sample& sample, const Sequence& branch, sample::Workspace& workspace);
  void end_if_due(Sample& sample, const Sequence& branch) const;

  std::shared_ptr<const sample::Sampler> sampler_;
  SampleOptions options_;
  std::vector<Sample> samples_;
  std::vector<size_t> running_;  // of samples_: branch i continues samples_[running_[i]]
  bool started_ = false;
  std::vector<sample::Continuation> continuations_;
  GeneratedToken last_;  // of the first sequence
};

}  // namespace kvik::engine
