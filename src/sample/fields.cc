#include <limits>

#include "kvik/options.h"

namespace kvik {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();
constexpr double kBelowOne = 1.0 - std::numeric_limits<double>::epsilon() / 2;
constexpr double kMostInt = std::numeric_limits<int>::max();

constexpr const char* kShare = "a number from 0 to 1";
constexpr const char* kFactor = "a positive number (1 has no effect)";
constexpr const char* kFinite = "a finite number";
constexpr const char* kCount = "a whole number, 0 or more";
constexpr const char* kCutoff = "a number from 0 to below 1";

using S = Sampling;

// One line per option, in the order of struct Sampling and of kvik_sampling in kvik_c.h.
constexpr SamplingField kFields[] = {
    {"temperature", &S::temperature, 0, 0, kLargest, "0 (greedy) or a positive number", "T",
     "0: always the most likely token; higher: more varied", true},
    {"top_k", &S::top_k, 0, 0, kMostInt, kCount, "K", "Sample from the K most likely tokens; 0: all", true},
    {"top_p", &S::top_p, 1, 0, 1, kShare, "P", "Sample from the most likely tokens whose probabilities add up to P", true},
    {"min_p", &S::min_p, 0, 0, 1, kShare, "P", "Sample from tokens at least P times as likely as the most likely one", true},
    {"typical_p", &S::typical_p, 1, kAboveZero, 1, "above 0 and at most 1", "P", "Sample from the most typical tokens, up to probability P",
     true},
    {"epsilon_cutoff", &S::epsilon_cutoff, 0, 0, kBelowOne, kCutoff, "P", "Sample from tokens of at least probability P", true},
    {"eta_cutoff", &S::eta_cutoff, 0, 0, kBelowOne, kCutoff, "P", "Like epsilon-cutoff, with a threshold that falls with the entropy",
     true},
    {"repetition_penalty", &S::repetition_penalty, 1, kAboveZero, kLargest, kFactor, "X",
     "Above 1: tokens that occurred become less likely"},
    {"presence_penalty", &S::presence_penalty, 0, -kLargest, kLargest, kFinite, "X", "Subtracted once from the logits of generated tokens"},
    {"frequency_penalty", &S::frequency_penalty, 0, -kLargest, kLargest, kFinite, "X",
     "Subtracted from the logits of generated tokens, once per occurrence"},
    {"encoder_repetition_penalty", &S::encoder_repetition_penalty, 1, kAboveZero, kLargest, kFactor, "X",
     "Above 1: tokens of the source become more likely"},
    {"no_repeat_ngram_size", &S::no_repeat_ngram_size, 0, 0, kMostInt, kCount, "N", "No sequence of N tokens repeats; 0: off"},
    {"encoder_no_repeat_ngram_size", &S::encoder_no_repeat_ngram_size, 0, 0, kMostInt, kCount, "N",
     "No sequence of N tokens is copied from the source; 0: off"},
    {"min_length", &S::min_length, 0, 0, kMostInt, kCount, "N", "No end token before this length, start tokens included"},
    {"min_new_tokens", &S::min_new_tokens, 0, 0, kMostInt, kCount, "N", "No end token before this many new tokens"},
    {"forced_bos_token_id", &S::forced_bos_token_id, -1, -1, kMostInt, "a token id, or -1 for none", "ID",
     "First token of the target; -1: none is forced"},
    {"forced_eos_token_id", &S::forced_eos_token_id, 0, 0, 0, "", "ID,ID…",
     "Last token when the length limit is reached; \"\": none is forced"},
    {"suppress_tokens", &S::suppress_tokens, 0, 0, 0, "", "ID,ID…", "Tokens that are never generated; \"\": none"},
    {"begin_suppress_tokens", &S::begin_suppress_tokens, 0, 0, 0, "", "ID,ID…", "Tokens that are not generated first; \"\": none"},
    {"bad_words_ids", &S::bad_words_ids, 0, 0, 0, "", "ID,ID…", "Tokens in a row that are never generated (repeatable); \"\": none"},
    {"sequence_bias", &S::sequence_bias, 0, 0, 0, "", "", ""},
    {"logit_bias", &S::logit_bias, 0, 0, 0, "", "ID:BIAS", "Added to the logit of a token (repeatable)"},
    {"exponential_decay_length_penalty", &S::exponential_decay_length_penalty, 0, 0, 0, "", "", ""},
    {"remove_invalid_values", &S::remove_invalid_values, 0, 0, 1, "true or false", "", "Replace NaN and infinite logits"},
    {"renormalize_logits", &S::renormalize_logits, 0, 0, 1, "true or false", "", "With beams: normalize again after penalties"},
    {"seed", &S::seed, 0, 0, 18446744073709551615.0, "a whole number, 0 or more", "N",
     "The same seed gives the same text on every machine"},
};

}  // namespace

std::span<const SamplingField> sampling_fields() { return kFields; }

}  // namespace kvik
