#pragma once

#include <span>

#include "kvik/options.h"

namespace kvik::sample {

// Fills `chosen`, whose id is set: its log-probability and the `n` likeliest tokens; of equals the smaller id first. What has no
// probability is not among them.
void find_likeliest(std::span<const float> logits, size_t n, GeneratedToken& chosen);

}  // namespace kvik::sample
