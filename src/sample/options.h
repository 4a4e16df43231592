#pragma once

#include <string>
#include <vector>

#include "kvik/options.h"

namespace kvik::sample {

// Below this a quotient of a logit may overflow, and the likeliest token has all the probability anyway.
inline constexpr double kSmallestTemperature = 1e-20;

// `base` with every option of `wanted` that is set.
Sampling merged(Sampling base, const Sampling& wanted);

// Whether all options are the same.
bool are_equal(const Sampling& a, const Sampling& b);

// Every number set: to the value that has no effect if it was not. Lists stay as they are.
Sampling with_defaults(Sampling sampling);

inline bool is_greedy(const Sampling& sampling) { return sampling.temperature.value_or(0.0) < kSmallestTemperature; }

// A message for the first option that is out of range or names an id outside the vocabulary, if that matters; empty if all are good.
std::string problem_of(const Sampling& sampling, size_t vocab_size);

}  // namespace kvik::sample
