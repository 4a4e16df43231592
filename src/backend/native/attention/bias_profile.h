#pragma once

#include "backend/native/attention/score_source.h"

namespace kvik::native {

inline constexpr float kHidden = -1e3f;  // a bias below it hides a key: masks are -inf, -3.4e38, -65504, -1e4

// What is added to a score, by distance (query position - key position) and head, measured from the row's reference key. Every observation
// at any size must agree with earlier ones.
class BiasProfile {
 public:
  explicit BiasProfile(int64_t n_heads) : n_heads_(n_heads) {}

  // Adds all pairs of rows, the first of them at `position`. Returns the distance that contradicts an earlier observation, if there is one.
  std::optional<int64_t> add(int64_t position, int64_t n_keys, const Scores& scores, const Reference& reference);

  int64_t n_heads() const { return n_heads_; }
  int64_t n_behind() const { return behind_.count; }  // distances 0 … n_behind() - 1 were seen
  int64_t n_ahead() const { return ahead_.count; }    // distances -1 … -n_ahead() were seen
  float bias(int64_t distance, int64_t head) const;
  bool is_hidden(int64_t distance, int64_t head) const { return bias(distance, head) < kHidden; }
  float noise() const { return noise_; }  // of the numbers that were subtracted

  // Refuses if some distance between the smallest and the largest was never seen.
  Expected<> require_no_gaps() const;

 private:
  struct Side {
    std::vector<float> bias;  // [distance][head]; NaN where not seen
    int64_t count = 0;
  };
  bool observe(int64_t distance, int64_t head, float bias, float tolerance);

  int64_t n_heads_;
  Side behind_, ahead_;
  float noise_ = 0;
};

// Of rows of which the first is at `position`; -1: keys are of a source. Refuses if a row sees no key that all heads see.
Expected<Reference> reference_of(const onnx::Node& node, int64_t position, int64_t n_keys, const Scores& scores);

}  // namespace kvik::native
