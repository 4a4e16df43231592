#include "engine/beam_strategy.h"

#include <algorithm>
#include <atomic>

#include "kvik/error.h"
#include "sample/choice.h"

namespace kvik::engine {

BeamStrategy::BeamStrategy(std::shared_ptr<const sample::Sampler> sampler, sample::BeamOptions options, size_t prompt_length,
                           std::vector<TokenId> source, std::shared_ptr<constrain::TokenConstraint> constraint)
    : sampler_(std::move(sampler)), beams_(std::move(options), prompt_length, sampler_->tokens().vocab_size), source_(std::move(source)) {
  if (constraint != nullptr) texts_.emplace_back(ConstrainedText(std::move(constraint)));
}

void BeamStrategy::find_allowed() {
  static const auto kNothing = std::make_shared<const constrain::Mask>();
  allowed_.clear();
  for (Text& text : texts_) {
    const double before = text ? text->ms() : 0;
    allowed_.push_back(text ? text->find_allowed() : constrain::Allowed{kNothing, false});
    mask_ms_ += text ? text->ms() - before : 0;
  }
}

void BeamStrategy::continue_texts(std::span<const sample::Continuation> continuations) {
  if (texts_.empty()) return;
  std::vector<Text> next;
  for (const sample::Continuation& continuation : continuations) {
    next.push_back(texts_[continuation.from]);
    if (allowed_[continuation.from].tokens->contains(continuation.token)) {
      next.back()->append(continuation.token);
    } else {
      next.back().reset();
    }
  }
  texts_ = std::move(next);
}

sample::History BeamStrategy::history_of(size_t beam) const {
  return {tokens_[beam], beams_.prompt_length(), beams_.options().max_length, source_, texts_.empty() ? nullptr : &allowed_[beam]};
}

// Of each beam only what may rank among the best; false if options may make any token one of them.
bool BeamStrategy::find_best(std::span<const Sequence> branches, Workers& workers) {
  constexpr size_t kRoom = 128;  // rarely is more needed
  while (best_.size() < branches.size()) best_.emplace_back().reserve(kRoom);
  std::atomic<bool> found = true;
  workers.for_each(branches.size(), branches.size() * sampler_->tokens().vocab_size, [&](size_t i) {
    const Workers::Lease workspace(workers);
    const std::span<const float> logits = branches[i].known_logits();
    if (!sampler_->best_log_probs(logits, history_of(i), beams_.score(i), beams_.n_extensions(), best_[i], *workspace)) found = false;
  });
  return found;
}

void BeamStrategy::find_log_probs(std::span<const Sequence> branches, std::span<float> log_probs, Workers& workers) const {
  const size_t vocab = sampler_->tokens().vocab_size;
  workers.for_each(branches.size(), log_probs.size(), [&](size_t i) {
    const Workers::Lease workspace(workers);
    sampler_->log_probs(branches[i].known_logits(), history_of(i), log_probs.subspan(i * vocab, vocab), *workspace);
  });
}

std::span<const sample::Continuation> BeamStrategy::advance(std::span<const Sequence> branches, Workers& workers) {
  tokens_.clear();
  for (const Sequence& branch : branches) tokens_.push_back(branch.all_tokens());
  find_allowed();
  std::span<const sample::Continuation> continuations;
  if (beams_.started() && find_best(branches, workers)) {
    continuations = beams_.advance(std::span(best_).first(branches.size()), tokens_);
  } else {
    const size_t size = branches.size() * sampler_->tokens().vocab_size;
    const Workers::Lease ranking(workers);
    if (ranking->beams.size() < size) ranking->beams.resize(size);
    const std::span<float> log_probs = std::span(ranking->beams).first(size);
    find_log_probs(branches, log_probs, workers);
    continuations = beams_.advance(log_probs, tokens_);
  }
  if (!beams_.done()) {
    continue_texts(continuations);
    return continuations;
  }
  if (beams_.best().empty()) throw Error(Code::kBadModel, sample::why_no_choice(branches.front().known_logits()));
  return {};
}

std::vector<Target> BeamStrategy::targets() const {
  const std::vector<TokenId>& eos = beams_.options().eos_token_id;
  std::vector<Target> targets;
  for (sample::Candidate& found : beams_.best()) {
    const bool ended = !found.ids.empty() && std::ranges::find(eos, found.ids.back()) != eos.end();
    targets.push_back({std::move(found.ids), found.score, ended ? Finish::kStop : Finish::kLength});
  }
  return targets;
}

Finish BeamStrategy::finish() const { return targets().front().finish; }

}  // namespace kvik::engine
