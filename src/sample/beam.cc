#include "sample/beam.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "base/deterministic_math.h"
#include "kvik/error.h"

namespace kvik::sample {
namespace {

// What the reference implementation adds to a score to put it behind all others. It shows where there are fewer continuations than
// beams, and rounding it in float is part of the result there.
constexpr float kBehind = -1.0e9f;
constexpr float kSound = -1.0e8f;  // no sum of log-probabilities is below this unless kBehind was added

float penalised(float score, size_t length, double length_penalty) {
  return score / static_cast<float>(deterministic_pow(static_cast<double>(length), length_penalty));
}

}  // namespace

std::vector<std::string> BeamOptions::validate() const {
  std::vector<std::string> sentences;
  if (num_beams < 1 || num_beams > kMostBeams) {
    sentences.push_back(fmt::format("num_beams is {}; it must be from 1 to {}", num_beams, kMostBeams));
  }
  if (num_return_sequences < 1 || num_return_sequences > num_beams) {
    sentences.push_back(
        fmt::format("num_return_sequences is {}; it must be from 1 to num_beams, which is {}", num_return_sequences, num_beams));
  }
  if (!std::isfinite(length_penalty)) sentences.push_back(fmt::format("length_penalty is {}; it must be a finite number", length_penalty));
  return sentences;
}

BeamSearch::BeamSearch(BeamOptions options, std::span<const TokenId> prompt, size_t vocab_size)
    : options_(std::move(options)), prompt_length_(prompt.size()), vocab_size_(vocab_size) {
  const std::vector<std::string> problems = options_.validate();
  if (!problems.empty()) throw Error(Code::kBadArgument, problems.front());
  if (prompt.size() >= options_.max_length) {
    throw Error(Code::kBadArgument,
                fmt::format("the prompt has {} tokens and max_length is {}; raise max_length", prompt.size(), options_.max_length));
  }
  const auto n_beams = static_cast<size_t>(options_.num_beams);
  n_candidates_ = std::max<size_t>(2, 1 + options_.eos_token_id.size()) * n_beams;
  if (n_beams == 1) options_.early_stopping = EarlyStopping::kYes;  // and so one beam is greedy search
  // All beams begin with the prompt. That all but the first are behind keeps them from choosing the same tokens.
  running_.assign(n_beams, {{prompt.begin(), prompt.end()}, kBehind});
  running_.front().score = 0.0f;
  slots_.assign(n_beams, {{}, kBehind});
}

std::span<const BeamStep> BeamSearch::advance(std::span<const float> log_probs) {
  select_candidates(log_probs);
  mark_ends();
  keep_finished();
  continue_running();
  started_ = true;
  decide_whether_done();
  return steps_;
}

bool BeamSearch::ranks_before(const Candidate& a, const Candidate& b) { return a.score != b.score ? a.score > b.score : a.place < b.place; }

void BeamSearch::select_candidates(std::span<const float> log_probs) {
  const size_t capacity = 2 * n_candidates_ + 64;
  candidates_.clear();
  candidates_.reserve(capacity);
  // Places are visited in their order, so that what only equals the last of enough candidates ranks behind it.
  float bound = -std::numeric_limits<float>::infinity();
  const auto cut = [&] {
    const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(n_candidates_ - 1);
    std::nth_element(candidates_.begin(), last, candidates_.end(), ranks_before);
    bound = last->score;
    candidates_.resize(n_candidates_);
  };
  for (size_t beam = 0; beam < running_.size(); ++beam) {
    const std::span<const float> row = log_probs.subspan(started_ ? beam * vocab_size_ : 0, vocab_size_);
    for (size_t token = 0; token < vocab_size_; ++token) {
      const float score = row[token] + running_[beam].score;
      if (!(score > bound)) continue;
      candidates_.push_back({score, beam * vocab_size_ + token});
      if (candidates_.size() == capacity) cut();
    }
  }
  if (candidates_.size() > n_candidates_) cut();
  std::ranges::sort(candidates_, ranks_before);
}

void BeamSearch::mark_ends() {
  const bool at_largest_length = length() + 1 >= options_.max_length;
  for (Candidate& candidate : candidates_) {
    candidate.ends = at_largest_length || std::ranges::find(options_.eos_token_id, token_of(candidate)) != options_.eos_token_id.end();
  }
}

bool BeamSearch::all_slots_finished() const { return std::ranges::all_of(slots_, &Slot::finished); }

void BeamSearch::keep_finished() {
  const bool full = options_.early_stopping == EarlyStopping::kYes && all_slots_finished();
  if (full || !can_improve_) return;
  const size_t n_beams = slots_.size();
  // Only the best num_beams candidates may finish; the others are there to go on.
  for (size_t i = 0; i < std::min(n_beams, candidates_.size()); ++i) {
    const Candidate& candidate = candidates_[i];
    if (!candidate.ends) continue;
    const std::vector<TokenId>& tokens = running_[beam_of(candidate)].tokens;
    Slot slot{{tokens.begin() + static_cast<std::ptrdiff_t>(prompt_length_), tokens.end()},
              penalised(candidate.score, length() + 1 - prompt_length_, options_.length_penalty),
              true,
              candidate.score > kSound};
    slot.ids.push_back(token_of(candidate));
    slots_.push_back(std::move(slot));
  }
  std::ranges::stable_sort(slots_, std::greater<>(), &Slot::score);
  slots_.resize(n_beams);
}

void BeamSearch::continue_running() {
  for (Candidate& candidate : candidates_) candidate.score += candidate.ends ? kBehind : 0.0f;
  std::ranges::stable_sort(candidates_, std::greater<>(), &Candidate::score);
  const size_t n_next = std::min(slots_.size(), candidates_.size());
  next_.resize(n_next);
  steps_.clear();
  for (size_t i = 0; i < n_next; ++i) {
    const size_t from = beam_of(candidates_[i]);
    next_[i].tokens = running_[from].tokens;
    next_[i].tokens.push_back(token_of(candidates_[i]));
    next_[i].score = candidates_[i].score;
    steps_.push_back({started_ ? from : 0, token_of(candidates_[i])});
  }
  std::swap(running_, next_);
}

void BeamSearch::decide_whether_done() {
  const bool nothing_goes_on = std::ranges::all_of(candidates_, &Candidate::ends);
  const bool full = options_.early_stopping == EarlyStopping::kYes && all_slots_finished();
  done_ = nothing_goes_on || full;
  if (running_.empty()) return;
  const bool any_length = options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0.0;
  const size_t best_length = (any_length ? options_.max_length : length()) - prompt_length_;
  const float best = penalised(running_.front().score, best_length, options_.length_penalty);
  const float worst = all_slots_finished() ? slots_.back().score : kBehind;
  can_improve_ = can_improve_ && best > worst;
  done_ = done_ || !can_improve_;
}

std::vector<Hypothesis> BeamSearch::hypotheses() const {
  std::vector<Hypothesis> best;
  for (const Slot& slot : slots_) {
    if (best.size() == static_cast<size_t>(options_.num_return_sequences)) break;
    if (slot.finished && slot.sound) best.push_back({slot.ids, slot.score});
  }
  return best;
}

}  // namespace kvik::sample
