#include "engine/sample_strategy.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "kvik/error.h"
#include "sample/likeliest.h"

namespace kvik::engine {

SampleStrategy::SampleStrategy(std::shared_ptr<const sample::Sampler> sampler, SampleOptions options)
    : sampler_(std::move(sampler)), options_(std::move(options)) {
  const int n_samples = options_.n_samples;
  if (n_samples < 1 || n_samples > sample::kMostSamples)
    throw Error(Code::kBadArgument, fmt::format("num_return_sequences is {}; it must be from 1 to {}", n_samples, sample::kMostSamples));
  if (n_samples > 1 && sampler_->is_greedy())
    throw Error(Code::kBadArgument,
                fmt::format("num_return_sequences is {}, but greedy search has one result; set beams or a temperature", n_samples));
  if (options_.prompt_length == 0 || options_.prompt_length >= options_.stop.max_length)
    throw Error(Code::kBadArgument, fmt::format("{} start tokens leave no room for new ones: the length limit is {}",
                                                options_.prompt_length, options_.stop.max_length));
  for (uint64_t i = 0; i < static_cast<uint64_t>(n_samples); ++i) {
    samples_.emplace_back(sample::Rng(options_.seed, (options_.stream << 16) + i));
    if (options_.stop.text) samples_.back().text = options_.stop.text();
    if (options_.constraint != nullptr) samples_.back().constrained.emplace(options_.constraint);
  }
  running_.reserve(samples_.size());
  continuations_.reserve(samples_.size());
}

std::span<const sample::Continuation> SampleStrategy::advance(std::span<const Sequence> branches, Workers& workers) {
  const Workers::Lease workspace(workers);
  continuations_.clear();
  if (!started_) {  // the prompt was computed once for all samples
    for (size_t i = 0; i < samples_.size(); ++i) running_.push_back(i);
  }
  for (size_t i = 0; i < running_.size(); ++i) {
    Sample& sample = samples_[running_[i]];
    const size_t from = started_ ? i : 0;
    choose(sample, branches[from], *workspace);
    if (!sample.done) continuations_.push_back({from, sample.last});
  }
  started_ = true;
  std::erase_if(running_, [&](size_t i) { return samples_[i].done; });
  return continuations_;
}

// Constraints, log-probabilities and scores read all logits.
int SampleStrategy::n_candidates() const {
  const bool constrained = std::ranges::any_of(samples_, [](const Sample& sample) { return static_cast<bool>(sample.constrained); });
  return constrained || options_.logprobs || options_.scores ? 0 : sampler_->n_candidates();
}

void SampleStrategy::choose(Sample& sample, const Sequence& branch, sample::Workspace& workspace) {
  const std::span<const TokenLogit> candidates = n_candidates() > 0 ? branch.known_candidates() : std::span<const TokenLogit>();
  const constrain::Allowed* const allowed = sample.constrained ? &sample.constrained->find_allowed() : nullptr;
  const sample::History history{branch.all_tokens(), options_.prompt_length, options_.stop.max_length, options_.source, allowed};
  if (const std::optional<TokenId> known = sampler_->sample_candidates(candidates, history, sample.rng, workspace)) {
    sample.last = *known;
    if (&sample == &samples_.front()) last_.id = sample.last;
    return end_if_due(sample, branch);
  }
  const std::span<const float> logits = branch.known_logits();
  sample.last = sampler_->sample(logits, history, sample.rng, workspace);
  if (&sample == &samples_.front()) {
    last_.id = sample.last;
    if (options_.logprobs) sample::find_likeliest(logits, static_cast<size_t>(*options_.logprobs), last_);
  }
  if (options_.scores) sample.sum += sampler_->log_prob(logits, history, sample.last, workspace);
  end_if_due(sample, branch);
}

void SampleStrategy::end_if_due(Sample& sample, const Sequence& branch) const {
  const StopConditions& stop = options_.stop;
  const bool is_end = std::ranges::find(stop.stop_ids, sample.last) != stop.stop_ids.end();
  sample.piece = {};
  if (sample.text != nullptr && !is_end) sample.piece = sample.text->push(sample.last);
  if (sample.constrained && !is_end) sample.constrained->append(sample.last);
  const bool must_end = sample.constrained && sample.constrained->must_end();
  const bool stopped = is_end || must_end || (sample.text != nullptr && sample.text->stopped());
  // A token that no longer fits in the context is not computed, but is still the last one of the result.
  sample.done = stopped || branch.n_tokens() + 1 >= stop.max_length || !branch.has_room_for(1);
  if (!sample.done) return;
  sample.finish = stopped ? Finish::kStop : Finish::kLength;
  const std::span<const TokenId> generated = branch.all_tokens().subspan(options_.prompt_length);
  sample.ids.assign(generated.begin(), generated.end());
  sample.ids.push_back(sample.last);
}

double SampleStrategy::mask_ms() const {
  double sum = 0;
  for (const Sample& sample : samples_) sum += sample.constrained ? sample.constrained->ms() : 0;
  return sum;
}

std::vector<Target> SampleStrategy::targets() const {
  std::vector<Target> targets;
  for (const Sample& sample : samples_) {
    const double length = std::max<double>(1, static_cast<double>(sample.ids.size()));
    targets.push_back({sample.ids, static_cast<float>(sample.sum / std::pow(length, options_.length_penalty)), sample.finish});
  }
  std::ranges::stable_sort(targets, std::greater<>(), &Target::score);
  return targets;
}

}  // namespace kvik::engine
