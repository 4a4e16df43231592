#pragma once

#include "backend/native/attention/bias_profile.h"
#include "backend/native/attention/score_function.h"

namespace kvik::native {

// What was inferred from numbers alone: everything of an attention but where its operands stand.
struct MaskPattern {
  Attend attend;  // scale, cap, causal, window, slopes, distances, sinks, words
  std::optional<int64_t> limit;
  bool new_tokens_see_all = false;
};

struct MaskProbe {
  const onnx::Node& node;  // for sentences
  ScoreSource& source;
  int64_t n_heads = 0;
  bool from_source = false;
  bool softmax_expanded = false;                // weights that underflow look hidden
  std::optional<ScoreFunction> score_function;  // known beforehand; nothing: to be asked for
};

// Probes at many sizes and up to the context's length. Throws Refusal where the bias is no function of the distance, or the score no
// known function of the product.
MaskPattern probe_mask(const AttentionContext& context, const MaskProbe& question);

// Fills causal, window, slopes and distances of the rule, and says it in words.
void classify(const AttentionContext& context, const MaskProbe& question, const BiasProfile& profile, MaskPattern& rule);

// What the finished rule adds to a score; -inf: not seen.
float bias_of(const Attend& attend, int64_t head, int64_t distance);

}  // namespace kvik::native
