#pragma once

#include <optional>
#include <span>
#include <string>

#include "sample/filters.h"
#include "sample/rng.h"

namespace kvik::sample {

// The index of the largest logit, of equals the first. NaN is skipped. None if no logit is above -inf.
std::optional<size_t> choose_greedily(std::span<const float> logits);

// An index with the probability of softmax(logits): the first whose running sum of weights, made in double in the order of the
// indices, exceeds one uniform number times the whole. NaN is skipped. None if no logit is above -inf; the draw is made anyway,
// so that the stream does not depend on it.
std::optional<size_t> choose_randomly(std::span<const float> logits, Rng& rng, FilterScratch& scratch);

// Why no token can be chosen, as an error message.
std::string why_no_choice(std::span<const float> logits);

}  // namespace kvik::sample
