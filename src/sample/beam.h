#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "base/token_logit.h"
#include "kvik/options.h"

namespace kvik::sample {

// Names and meaning as in Hugging Face's GenerationConfig.
struct BeamOptions {
  int num_beams = 1;             // 1 is greedy search
  int num_return_sequences = 1;  // at most num_beams
  double length_penalty = 1.0;   // a hypothesis scores its sum of log-probabilities / length^penalty: above 0 favors long ones
  EarlyStopping early_stopping = EarlyStopping::kFalse;
  size_t max_length = 20;  // of a sequence, prompt included
  std::vector<TokenId> eos_token_id;

  // A message for the first value that is out of range; empty if all are good.
  std::string problem() const;
};

inline constexpr int kMostBeams = 1024;
inline constexpr int kMostSamples = 1024;  // of one source or prompt

// One more token for the sequence at index `from`.
struct Continuation {
  size_t from;
  TokenId token;
};

// A finished sequence.
struct Candidate {
  std::vector<TokenId> ids;  // what was generated, with the end token if there is one
  float score = 0;
};

// The tokens of sequences, prompt included; views.
using TokenLists = std::span<const std::span<const TokenId>>;

// Beam search for one source: which sequences to continue, given the log-probabilities of their next tokens. Holds scores, not tokens or
// caches: the caller keeps those and forks them according to the continuations. Each source of a batch has its own object.
// Token for token the search of transformers 4.57, in float as there; of equal scores the lower beam, then the lower id comes first,
// an order that transformers leaves open. Used by one thread at a time.
class BeamSearch {
 public:
  // Throws Error(kBadArgument) if an option is out of range or the prompt leaves no room below max_length.
  BeamSearch(BeamOptions options, size_t prompt_length, size_t vocab_size);

  bool done() const { return done_; }
  const BeamOptions& options() const { return options_; }

  // How many sequences run, and so how many rows advance() wants: one at first, then up to num_beams.
  size_t n_beams() const { return started_ ? scores_.size() : 1; }
  size_t prompt_length() const { return prompt_length_; }

  // One step, given [n_beams, vocab_size] log-probabilities (from Sampler::log_probs()) and the tokens of the beams. Returns one entry for
  // each sequence that runs now, best first, valid until the next advance(). Empty if nothing can continue. Precondition: not done().
  std::span<const Continuation> advance(std::span<const float> log_probs, TokenLists beams);

  // The same, given of each row only what ranks among the n_extensions() largest once the beam's score is added, in the order of the ids,
  // with more if convenient. Not in the first step.
  std::span<const Continuation> advance(std::span<const std::vector<TokenLogit>> rows, TokenLists beams);
  bool started() const { return started_; }
  size_t n_extensions() const { return n_extensions_; }
  float score(size_t beam) const { return scores_[beam]; }  // the sum of its log-probabilities

  // The best finished sequences, best first: num_return_sequences, or fewer if there are not so many. Meant for when done().
  std::vector<Candidate> best() const;

 private:
  struct Extension {
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
  static bool ranks_before(const Extension& a, const Extension& b);

  void select_extensions(std::span<const float> log_probs);
  void select_extensions(std::span<const std::vector<TokenLogit>> rows);
  std::span<const Continuation> continue_with_extensions(TokenLists beams);
  void mark_ends();
  void add_finished(TokenLists beams);
  void continue_running();
  void decide_whether_done();
  size_t beam_of(const Extension& extension) const { return extension.place / vocab_size_; }
  TokenId token_of(const Extension& extension) const { return static_cast<TokenId>(extension.place % vocab_size_); }
  bool all_slots_finished() const;

  BeamOptions options_;
  size_t prompt_length_;
  size_t vocab_size_;
  size_t length_;        // of the running sequences
  size_t n_extensions_;  // enough that num_beams are left if each end token takes its share
  bool started_ = false;
  bool done_ = false;
  bool can_improve_ = true;
  std::vector<float> scores_;  // of the running sequences, best first: sums of log-probabilities
  std::vector<float> next_scores_;
  std::vector<Extension> extensions_;  // best first
  std::vector<Slot> slots_;            // [num_beams], best first
  std::vector<Continuation> continuations_;
};

}  // namespace kvik::sample
