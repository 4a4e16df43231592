#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"

namespace kvik::sample {

// When a search ends that has as many finished hypotheses as beams.
enum class EarlyStopping {
  kNo,     // when the best running beam, at its present length, scores below the worst of them
  kYes,    // at once
  kNever,  // when no running beam can score above the worst of them at any length up to the largest
};

// Names and meaning as in Hugging Face's GenerationConfig.
struct BeamOptions {
  int num_beams = 1;             // 1 is greedy search
  int num_return_sequences = 1;  // at most num_beams
  double length_penalty = 1.0;   // a hypothesis scores its sum of log-probabilities / length^penalty: above 0 favours long ones
  EarlyStopping early_stopping = EarlyStopping::kNo;
  size_t max_length = 20;  // of a sequence, prompt included
  std::vector<TokenId> eos_token_id;

  // A sentence for each value that is out of range, none when all is well.
  std::vector<std::string> validate() const;
};

inline constexpr int kMostBeams = 1024;

// The new beam is the old beam `from` with one more token.
struct BeamStep {
  size_t from;
  TokenId token;
};

struct Hypothesis {
  std::vector<TokenId> ids;  // what was generated, with the end token where there is one
  float score;
};

// Beam search for one source: which sequences to go on with, given the log-probabilities of their next tokens. Knows nothing of models or
// caches; the caller forks those as the steps say. Sources of a batch are searched each by its own object, and each ends by itself.
// Token for token the search of transformers 4.57, in float as there; of equal scores the lower beam, then the lower id comes first,
// which that leaves open. Not for several threads at once.
class BeamSearch {
 public:
  // Throws Error(kBadArgument) where an option is out of range or the prompt leaves no room below max_length.
  BeamSearch(BeamOptions options, std::span<const TokenId> prompt, size_t vocab_size);

  bool done() const { return done_; }

  // How many sequences run, and so how many rows advance() wants: one at first, then up to num_beams.
  size_t n_beams() const { return started_ ? running_.size() : 1; }
  // Prompt and generated tokens of a running sequence; holds until the next advance().
  std::span<const TokenId> tokens(size_t beam) const { return running_[beam].tokens; }
  size_t prompt_length() const { return prompt_length_; }

  // One step, given [n_beams, vocab_size] log-probabilities (Sampler::log_probs() makes them). What comes back is one entry for each
  // sequence that now runs, best first; it holds until the next advance(). Empty where nothing can go on. Precondition: not done().
  std::span<const BeamStep> advance(std::span<const float> log_probs);

  // The best finished hypotheses, best first: num_return_sequences, or fewer where so many do not exist. Meant for when done().
  std::vector<Hypothesis> hypotheses() const;

 private:
  struct Beam {
    std::vector<TokenId> tokens;
    float score = 0.0f;  // sum of log-probabilities
  };
  struct Candidate {
    float score;
    size_t place;  // beam * vocab_size + token
    bool ends = false;
  };
  struct Slot {
    std::vector<TokenId> ids;
    float score;
    bool finished = false;
    bool sound = false;  // not a filler
  };
  static bool ranks_before(const Candidate& a, const Candidate& b);

  void select_candidates(std::span<const float> log_probs);
  void mark_ends();
  void keep_finished();
  void continue_running();
  void decide_whether_done();
  size_t beam_of(const Candidate& candidate) const { return candidate.place / vocab_size_; }
  TokenId token_of(const Candidate& candidate) const { return static_cast<TokenId>(candidate.place % vocab_size_); }
  size_t length() const { return running_.front().tokens.size(); }
  bool all_slots_finished() const;

  BeamOptions options_;
  size_t prompt_length_;
  size_t vocab_size_;
  size_t n_candidates_;  // enough that num_beams are left when each end token takes its share
  bool started_ = false;
  bool done_ = false;
  bool can_improve_ = true;
  std::vector<Beam> running_;  // best first
  std::vector<Beam> next_;
  std::vector<Candidate> candidates_;  // best first
  std::vector<Slot> slots_;            // [num_beams], best first
  std::vector<BeamStep> steps_;
};

}  // namespace kvik::sample
