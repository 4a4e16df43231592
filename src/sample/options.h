#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"

namespace kvik::sample {

// Added to the logit of the last id where the ids before it are what the sequence ends with.
struct SequenceBias {
  std::vector<TokenId> ids;
  double bias = 0.0;
};

// From `start` generated tokens on, the end tokens gain |logit| * (factor^n - 1) at the n-th token after.
struct DecayLengthPenalty {
  int start = 0;
  double factor = 1.0;
};

// How the next token is chosen. Names and meaning as in Hugging Face's GenerationConfig; a default changes nothing. Where that default
// differs from theirs (top_k is 50 there when sampling), a reader of generation_config.json has to say so.
struct SamplingOptions {
  // 0: greedy, and the filters below (top_k to eta_cutoff) have no say. Otherwise logits are divided by it before sampling.
  double temperature = 0.0;
  // Keep the k largest logits and all that equal the k-th; 0: all.
  int top_k = 0;
  // Keep the fewest most likely tokens whose probabilities reach p, at least one; 1: all. Of equals the lower id counts as more likely.
  double top_p = 1.0;
  // Keep tokens at least this many times as likely as the likeliest; 0: all.
  double min_p = 0.0;
  // Keep the tokens whose surprise is nearest to the expected, up to this mass; 1: all.
  double typical_p = 1.0;
  // Keep tokens at least this likely, and always the likeliest; 0: all.
  double epsilon_cutoff = 0.0;
  // The same with a limit that falls with the entropy: min(eta, sqrt(eta) * exp(-entropy)); 0: all.
  double eta_cutoff = 0.0;

  // Logits of tokens seen in the prompt or generated are divided by it where positive, multiplied where negative; 1: unchanged.
  double repetition_penalty = 1.0;
  // Subtracted once from the logit of each token that was generated (the prompt does not count, as in OpenAI's interface).
  double presence_penalty = 0.0;
  // Subtracted from the logit of a token as often as it was generated (the prompt does not count).
  double frequency_penalty = 0.0;
  // Tokens of an encoder's source become likelier where it is above 1; 1: unchanged.
  double encoder_repetition_penalty = 1.0;

  // No sequence of n tokens occurs twice, prompt included; 0: any may.
  int no_repeat_ngram_size = 0;
  // No sequence of n tokens of the encoder's source is generated; 0: any may.
  int encoder_no_repeat_ngram_size = 0;
  // Added to the logits; a sequence of one id is that id's bias. Ids beyond the vocabulary are an error.
  std::vector<SequenceBias> sequence_bias;
  // The same for single ids, as in OpenAI's interface; takes the place of a sequence_bias for the same id.
  std::vector<std::pair<TokenId, double>> logit_bias;
  // Sequences that never occur. A single end token in the list is not banned. Ids beyond the vocabulary cannot occur anyway.
  std::vector<std::vector<TokenId>> bad_words_ids;
  // Tokens that never occur, and those that do not come first.
  std::vector<TokenId> suppress_tokens;
  std::vector<TokenId> begin_suppress_tokens;
  // The token after a prompt of one token (the start token of a decoder).
  std::optional<TokenId> forced_bos_token_id;
  // The tokens one of which comes last when max_length is reached.
  std::vector<TokenId> forced_eos_token_id;

  // No end token before the sequence, prompt included, has this length.
  int min_length = 0;
  // No end token before this many tokens were generated.
  int min_new_tokens = 0;
  std::optional<DecayLengthPenalty> exponential_decay_length_penalty;
  // The end tokens that the three above speak of.
  std::vector<TokenId> eos_token_id;

  // Replace NaN by 0 and infinities by the largest finite numbers.
  bool remove_invalid_values = false;
  // Make log-probabilities of what is left; matters to beams only, since a choice among tokens does not depend on it.
  bool renormalize_logits = false;

  // The same seed gives the same tokens on every machine.
  uint64_t seed = 0;

  bool greedy() const;

  // A sentence for each value that is out of range, none when all is well.
  std::vector<std::string> validate() const;
  // And for ids that a vocabulary of this size does not have, where that matters.
  std::vector<std::string> validate(size_t vocab_size) const;
};

// Below this a quotient of a logit may overflow, and the likeliest token has all the probability anyway.
inline constexpr double kSmallestTemperature = 1e-20;

}  // namespace kvik::sample
