#include "sample/beam.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "base/deterministic_math.h"
#include "base/vector_clones.h"
#include "kvik/error.h"

namespace kvik::sample {
namespace {

// What the reference implementation adds to a score to put it behind all others. It shows if there are fewer continuations than
// beams, and rounding it in float is part of the result there.
constexpr float kBehind = -1.0e9f;
constexpr float kSound = -1.0e8f;  // no sum of log-probabilities is below this unless kBehind was added

float penalized(float score, size_t length, double length_penalty) {
  return score / static_cast<float>(deterministic_pow(static_cast<double>(length), length_penalty));
}

constexpr size_t kBlock = 256;  // tokens that are passed over together: few extensions rank among the best

KVIK_VECTOR_CLONES bool any_above(const float* log_probs, size_t n, float score, float bound) {
  int n_above = 0;
  for (size_t i = 0; i < n; ++i) n_above += log_probs[i] + score > bound ? 1 : 0;
  return n_above > 0;
}

}  // namespace

std::string BeamOptions::problem() const {
  if (num_beams < 1 || num_beams > kMostBeams) return fmt::format("num_beams is {}; it must be from 1 to {}", num_beams, kMostBeams);
  if (num_return_sequences < 1 || num_return_sequences > num_beams)
    return fmt::format("num_return_sequences is {}; it must be from 1 to num_beams, which is {}", num_return_sequences, num_beams);
  if (!std::isfinite(length_penalty)) return fmt::format("length_penalty is {}; it must be a finite number", length_penalty);
  return {};
}

BeamSearch::BeamSearch(BeamOptions options, size_t prompt_length, size_t vocab_size)
    : options_(std::move(options)), prompt_length_(prompt_length), vocab_size_(vocab_size), length_(prompt_length) {
  const std::string problem = options_.problem();
  if (!problem.empty()) throw Error(Code::kBadArgument, problem);
  if (prompt_length >= options_.max_length) {
    throw Error(Code::kBadArgument,
                fmt::format("the prompt has {} tokens and max_length is {}; raise max_length", prompt_length, options_.max_length));
  }
  const auto n_beams = static_cast<size_t>(options_.num_beams);
  n_extensions_ = std::max<size_t>(2, 1 + options_.eos_token_id.size()) * n_beams;
  if (n_beams == 1) options_.early_stopping = EarlyStopping::kTrue;  // and so one beam is greedy search
  // All beams begin with the prompt. That all but the first are behind keeps them from choosing the same tokens.
  scores_.assign(n_beams, kBehind);
  scores_.front() = 0.0f;
  slots_.assign(n_beams, {{}, kBehind});
}

std::span<const Continuation> BeamSearch::advance(std::span<const float> log_probs, TokenLists beams) {
  select_extensions(log_probs);
  return continue_with_extensions(beams);
}

std::span<const Continuation> BeamSearch::advance(std::span<const std::vector<TokenLogit>> rows, TokenLists beams) {
  select_extensions(rows);
  return continue_with_extensions(beams);
}

std::span<const Continuation> BeamSearch::continue_with_extensions(TokenLists beams) {
  mark_ends();
  add_finished(beams);
  continue_running();
  started_ = true;
  ++length_;
  decide_whether_done();
  return continuations_;
}

bool BeamSearch::ranks_before(const Extension& a, const Extension& b) { return a.score != b.score ? a.score > b.score : a.place < b.place; }

void BeamSearch::select_extensions(std::span<const float> log_probs) {
  const size_t capacity = 2 * n_extensions_ + 64;
  extensions_.clear();
  extensions_.reserve(capacity);
  // Places are visited in their order, so that what only equals the last of enough extensions ranks behind it.
  float bound = -std::numeric_limits<float>::infinity();
  const auto cut = [&] {
    const auto last = extensions_.begin() + static_cast<std::ptrdiff_t>(n_extensions_ - 1);
    std::nth_element(extensions_.begin(), last, extensions_.end(), ranks_before);
    bound = last->score;
    extensions_.resize(n_extensions_);
  };
  for (size_t beam = 0; beam < scores_.size(); ++beam) {
    const std::span<const float> row = log_probs.subspan(started_ ? beam * vocab_size_ : 0, vocab_size_);
    for (size_t first = 0; first < vocab_size_; first += kBlock) {
      const size_t end = std::min(first + kBlock, vocab_size_);
      if (!any_above(row.data() + first, end - first, scores_[beam], bound)) continue;
      for (size_t token = first; token < end; ++token) {
        const float score = row[token] + scores_[beam];
        if (!(score > bound)) continue;
        extensions_.push_back({score, beam * vocab_size_ + token});
        if (extensions_.size() == capacity) cut();
      }
    }
  }
  if (extensions_.size() > n_extensions_) cut();
  std::ranges::sort(extensions_, ranks_before);
}

void BeamSearch::select_extensions(std::span<const std::vector<TokenLogit>> rows) {
  extensions_.clear();
  for (size_t beam = 0; beam < rows.size(); ++beam) {
    for (const TokenLogit& entry : rows[beam])
      extensions_.push_back({entry.logit + scores_[beam], beam * vocab_size_ + static_cast<size_t>(entry.id)});
  }
  const auto n = static_cast<std::ptrdiff_t>(std::min(n_extensions_, extensions_.size()));
  std::ranges::partial_sort(extensions_, extensions_.begin() + n, ranks_before);
  extensions_.resize(static_cast<size_t>(n));
}

void BeamSearch::mark_ends() {
  const bool at_largest_length = length_ + 1 >= options_.max_length;
  for (Extension& extension : extensions_) {
    extension.ends = at_largest_length || std::ranges::find(options_.eos_token_id, token_of(extension)) != options_.eos_token_id.end();
  }
}

bool BeamSearch::all_slots_finished() const { return std::ranges::all_of(slots_, &Slot::finished); }

void BeamSearch::add_finished(TokenLists beams) {
  const bool full = options_.early_stopping == EarlyStopping::kTrue && all_slots_finished();
  if (full || !can_improve_) return;
  const size_t n_beams = slots_.size();
  // Only the best num_beams extensions may finish; the others are there to go on.
  for (size_t i = 0; i < std::min(n_beams, extensions_.size()); ++i) {
    const Extension& extension = extensions_[i];
    if (!extension.ends) continue;
    const std::span<const TokenId> generated = beams[started_ ? beam_of(extension) : 0].subspan(prompt_length_);
    Slot slot{{generated.begin(), generated.end()},
              penalized(extension.score, length_ + 1 - prompt_length_, options_.length_penalty),
              true,
              extension.score > kSound};
    slot.ids.push_back(token_of(extension));
    slots_.push_back(std::move(slot));
  }
  std::ranges::stable_sort(slots_, std::greater<>(), &Slot::score);
  slots_.resize(n_beams);
}

void BeamSearch::continue_running() {
  for (Extension& extension : extensions_) extension.score += extension.ends ? kBehind : 0.0f;
  std::ranges::stable_sort(extensions_, std::greater<>(), &Extension::score);
  const size_t n_next = std::min(slots_.size(), extensions_.size());
  next_scores_.clear();
  continuations_.clear();
  for (size_t i = 0; i < n_next; ++i) {
    next_scores_.push_back(extensions_[i].score);
    continuations_.push_back({started_ ? beam_of(extensions_[i]) : 0, token_of(extensions_[i])});
  }
  std::swap(scores_, next_scores_);
}

void BeamSearch::decide_whether_done() {
  const bool nothing_goes_on = std::ranges::all_of(extensions_, &Extension::ends);
  const bool full = options_.early_stopping == EarlyStopping::kTrue && all_slots_finished();
  done_ = nothing_goes_on || full;
  if (scores_.empty()) return;
  const bool any_length = options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0.0;
  const size_t best_length = (any_length ? options_.max_length : length_) - prompt_length_;
  const float best = penalized(scores_.front(), best_length, options_.length_penalty);
  const float worst = all_slots_finished() ? slots_.back().score : kBehind;
  can_improve_ = can_improve_ && best > worst;
  done_ = done_ || !can_improve_;
}

std::vector<Candidate> BeamSearch::best() const {
  std::vector<Candidate> found;
  for (const Slot& slot : slots_) {
    if (found.size() == static_cast<size_t>(options_.num_return_sequences)) break;
    if (slot.finished && slot.sound) found.push_back({slot.ids, slot.score});
  }
  return found;
}

}  // namespace kvik::sample
