#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/token.h"
#include "sample/bans.h"
#include "sample/filters.h"
#include "sample/history.h"
#include "sample/options.h"
#include "sample/penalties.h"
#include "sample/rng.h"

namespace kvik::sample {

// Memory that a step needs, kept from step to step: after the first few nothing is allocated. One for each thread, for all sequences.
struct Workspace {
  FilterScratch filters;
  TokenCounts counts;
  std::vector<float> values;  // what is left of a row while it is sampled, in the order of the ids
  std::vector<TokenId> ids;
};

// From a row of logits to a token. Holds the options and no state, so one serves any number of sequences and threads.
class Sampler {
 public:
  // Throws Error(kBadArgument) with a sentence for the first option that is out of range.
  Sampler(SamplingOptions options, size_t vocab_size);

  const SamplingOptions& options() const { return options_; }

  // The next token: process(), then the largest or, where the temperature is not 0, filter() and a draw. None where nothing can be
  // chosen, and why_no_choice(logits) then says why. The row has the size of the vocabulary; it is overwritten.
  std::optional<TokenId> sample(std::span<float> logits, const History& history, Rng& rng, Workspace& workspace) const;

  // Makes of logits the log-probabilities that beams are scored by: log-softmax, process(), and again where renormalize_logits is set.
  void log_probs(std::span<float> row, const History& history, Workspace& workspace) const;

  // Penalties, biases, bans and forced tokens, in this order: sequence_bias and logit_bias, encoder_repetition_penalty,
  // repetition_penalty, frequency and presence penalty, no_repeat_ngram_size, encoder_no_repeat_ngram_size, bad_words_ids, min_length,
  // min_new_tokens, forced_bos, forced_eos, remove_invalid_values, exponential_decay_length_penalty, suppress_tokens,
  // begin_suppress_tokens. It is Hugging Face's, who have no frequency and presence penalty.
  void process(std::span<float> logits, const History& history, Workspace& workspace) const;

  // What shapes the draw, in this order: temperature, top_k, top_p, min_p, typical_p, epsilon_cutoff, eta_cutoff.
  void filter(std::span<float> logits, Workspace& workspace) const;

 private:
  void penalise(std::span<float> logits, const History& history, Workspace& workspace) const;
  void ban_sequences_and_ends(std::span<float> logits, const History& history) const;
  void force_and_suppress(std::span<float> logits, const History& history) const;
  void collect_candidates(std::span<float> logits, Workspace& workspace) const;

  SamplingOptions options_;
  SequenceBiases biases_;
  std::vector<std::vector<TokenId>> bad_words_;  // without single end tokens
};

}  // namespace kvik::sample
