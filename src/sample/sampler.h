#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/token.h"
#include "base/token_logit.h"
#include "sample/bans.h"
#include "sample/filters.h"
#include "sample/history.h"
#include "sample/options.h"
#include "sample/penalties.h"
#include "sample/rng.h"
#include "sample/row_maxima.h"
#include "sample/timestamps.h"

namespace kvik::sample {

// Memory that a step needs, kept from step to step: after the first few nothing is allocated. One per thread, for all sequences.
struct Workspace {
  FilterScratch filters;
  TokenCounts counts;
  std::vector<float> row;     // logits after penalties, if these may decide the choice
  std::vector<float> values;  // what is left of a row while it is sampled, in the order of the ids
  std::vector<TokenId> ids;
  std::vector<TokenLogit> candidates;  // in the order of the ids
  std::vector<float> sparse;           // a row of -inf, but while candidates are in it
  std::vector<float> beams;            // rows of log-probabilities of one beam search
  RowMaxima maxima;

  void reserve(size_t vocab);  // so that rows of this size allocate nothing
};

// Special tokens of a model.
struct TokenRules {
  size_t vocab_size = 0;
  std::vector<TokenId> eos;                       // end tokens
  std::vector<TokenId> unsupported;               // that the backend cannot continue from: never chosen
  std::optional<TimestampRules> timestamps = {};  // not set: times are tokens as others are
};

// From a row of logits to a token. Holds options and no state, so one serves any number of sequences and threads.
class Sampler {
 public:
  // Throws Error(kBadArgument) with a message for the first option that is out of range.
  Sampler(const Sampling& sampling, TokenRules tokens);

  const Sampling& options() const { return options_; }  // every number is set
  const TokenRules& tokens() const { return tokens_; }
  bool is_greedy() const { return sample::is_greedy(options_); }

  // The next token: process(), then the largest or, if the temperature is not 0, filters and a draw. Throws Error(kBadModel) if nothing
  // can be chosen. `logits` has the size of the vocabulary.
  TokenId sample(std::span<const float> logits, const History& history, Rng& rng, Workspace& workspace) const;

  // How many of the largest logits decide, most of the time, what sample() chooses without a constraint; 0: all of them may.
  int n_candidates() const;
  // What sample() would choose from the row that these are the largest of, by logit and then by id, with all that equal the last of them.
  // Nothing, and no number drawn, if they do not decide it.
  std::optional<TokenId> sample_candidates(std::span<const TokenLogit> largest, const History& history, Rng& rng,
                                           Workspace& workspace) const;

  // The log-probabilities that beams are scored by: log-softmax, process(), and again if renormalize_logits is set.
  void log_probs(std::span<const float> logits, const History& history, std::span<float> result, Workspace& workspace) const;

  // The entries of log_probs() that rank among the n largest once `sum` is added, and some more, in the order of the ids; none that is
  // -inf. False if only log_probs() can tell.
  bool best_log_probs(std::span<const float> logits, const History& history, float sum, size_t n, std::vector<TokenLogit>& best,
                      Workspace& workspace) const;

  // The entry of log_probs() for one token. Overwrites Workspace::row.
  float log_prob(std::span<const float> logits, const History& history, TokenId id, Workspace& workspace) const;

  // Tokens that History::allowed does not have become -inf before and after all that follows.
  // Penalties, biases, bans and forced tokens, in this order: sequence_bias and logit_bias, encoder_repetition_penalty,
  // repetition_penalty, frequency and presence penalty, no_repeat_ngram_size, encoder_no_repeat_ngram_size, bad_words_ids, min_length,
  // min_new_tokens, forced_bos, forced_eos, remove_invalid_values, exponential_decay_length_penalty, suppress_tokens,
  // begin_suppress_tokens, unsupported tokens, timestamp rules. It is Hugging Face's, which has no frequency and presence penalty.
  void process(std::span<float> logits, const History& history, Workspace& workspace) const;

  // Temperature, then top_k, top_p, min_p, typical_p, epsilon_cutoff, eta_cutoff; what does not pass becomes -inf.
  void filter(std::span<float> logits, Workspace& workspace) const;

 private:
  bool changes_logits() const;
  bool only_lowers_logits() const;
  bool forces_end(const History& history) const;
  bool only_lowers(const History& history) const { return only_lowers_ && history.allowed == nullptr && !forces_end(history); }
  bool favors_ends() const;
  void process_candidates(const History& history, Workspace& workspace) const;
  bool is_allowed(TokenId id, const History& history) const;
  void keep_allowed(std::span<float> logits, const History& history) const;
  void penalize(std::span<float> logits, const History& history, Workspace& workspace) const;
  void ban_sequences_and_ends(std::span<float> logits, const History& history) const;
  void force_and_suppress(std::span<float> logits, const History& history) const;
  void collect_candidates(std::span<const float> logits, Workspace& workspace) const;

  TokenRules tokens_;
  Sampling options_;
  SequenceBiases biases_;
  std::vector<std::vector<TokenId>> bad_words_;  // without single end tokens
  bool processes_;                               // some option changes logits before the choice
  bool only_lowers_;                             // none makes one larger, but for an end token that is forced
};

}  // namespace kvik::sample
