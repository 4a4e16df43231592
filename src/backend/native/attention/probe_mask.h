#pragma once

#include "backend/native/attention/bias_profile.h"
#include "backend/native/attention/context.h"
#include "backend/native/attention/score_function.h"

namespace kvik::native {

// An attention whose mask is probed.
struct MaskProbe {
  const onnx::Node& node;  // for messages
  ScoreSource& source;
  int64_t n_heads = 0;
  bool from_source = false;
  bool softmax_expanded = false;                // weights that underflow look hidden
  std::optional<ScoreFunction> score_function;  // if known beforehand; nullopt: to be probed
};

// Probes at many sizes and up to the context's length. Refuses a bias that does not depend only on the distance, and a score that is not a
// known function of the product.
Expected<MaskPattern> probe_mask(const AttentionContext& context, const MaskProbe& mask);

// Fills causal, window, slopes and distances of the pattern, and names it. May refuse.
Expected<> classify_mask(const AttentionContext& context, const MaskProbe& mask, const BiasProfile& profile, MaskPattern& pattern);

// The bias that the finished pattern adds to a score; -inf: hidden.
float bias_of(const Attend& attend, int64_t head, int64_t distance);

}  // namespace kvik::native
