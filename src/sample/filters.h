#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvik::sample {

// Memory of the filters and of the choice, kept from call to call so that a step allocates nothing. One for each thread.
struct FilterScratch {
  std::vector<double> weights;
  std::vector<float> values;
  std::vector<uint64_t> keys;
};

// Each sets the logits that it removes to -inf and leaves the others as they are. NaN counts as removed. At least the largest logit
// stays. Sums are made in double, in one order: the same everywhere. Of equal logits the one with the lower index ranks higher; the
// reference implementation leaves that to an unstable sort.

// In float, as in Hugging Face.
inline float at_temperature(float logit, double temperature) { return logit / static_cast<float>(temperature); }

// The k-th largest logit: top_k keeps it and all that are not smaller. -inf if there are fewer than k. k >= 1.
float kth_largest(std::span<const float> logits, size_t k, FilterScratch& scratch);

// A token stays if the tokens that rank higher have less than `p` of the probability.
void keep_top_p(std::span<float> logits, double p, FilterScratch& scratch);

// A token stays if it is at least `p` times as likely as the likeliest.
void keep_min_p(std::span<float> logits, double p);

// Ranked by how far their surprise is from the entropy, tokens stay until `mass` is reached, with all that are as far as the last.
void keep_typical(std::span<float> logits, double mass, FilterScratch& scratch);

// Tokens less likely than `epsilon` go.
void cut_epsilon(std::span<float> logits, double epsilon);

// Tokens less likely than min(eta, sqrt(eta) * exp(-entropy)) go.
void cut_eta(std::span<float> logits, double eta, FilterScratch& scratch);

}  // namespace kvik::sample
