#pragma once

#include <span>

#include "base/token.h"

namespace kvik::sample {

// Log-probabilities of a row of logits, within 1e-6: our own exp and log, summed in double in a fixed order, so the same everywhere.
// -inf stays -inf; NaN counts as -inf. If some logits are +inf, they share the whole probability. A row without a logit above -inf
// becomes all -inf. `log_probs` has the size of `logits` and may be the same memory.
void log_softmax(std::span<const float> logits, std::span<float> log_probs);

// The largest entry and the log of the sum of exp(entry - largest); both are -inf if no entry is above -inf.
struct Normalizer {
  float largest;
  double log_sum;
};
Normalizer normalizer_of(std::span<const float> logits);
Normalizer normalizer_of(std::span<const float> logits, float largest);  // that is known already

// The entry of log_softmax() for a logit of the row, before it is rounded to float.
double log_prob_of(float logit, const Normalizer& normalizer);
// The same for a token. Precondition: 0 <= id < logits.size().
double log_prob_of(std::span<const float> logits, TokenId id);

// exp(logit - largest) for each logit, 0 for NaN; with largest = +inf: 1 for each +inf, 0 for the rest. Sizes are equal.
void weights_of(std::span<const float> logits, float largest, std::span<double> weights);

// The largest entry that is not NaN; -inf if there is none.
float largest_of(std::span<const float> logits);

}  // namespace kvik::sample
