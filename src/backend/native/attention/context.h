#pragma once

#include <unordered_map>

#include "backend/native/attention/attention.h"

namespace kvik::native {

// What was inferred from numbers: everything about an attention except the location of its operands.
struct MaskPattern {
  Attend attend;  // scale, cap, causal, window, slopes, distances, sinks, words
  std::optional<int64_t> limit;
  bool new_tokens_see_all = false;
  bool whole_prompt = false;  // see FoundAttention
};

// Patterns inferred so far, by the computation between the two products: layers that compute the same share one.
struct MaskPatternCache {
  std::unordered_map<std::string, MaskPattern> known;
  std::optional<int64_t> affordable;  // probing limit; determined once, because later layers find values already evaluated
};

// The context in which the attentions of one graph are probed.
struct AttentionContext {
  const Labels& labels;
  ProbeBank& probes;
  Constants& constants;
  int64_t context = 0;  // positions to probe up to; 0: unknown
  ValueNumbers& numbers;
  MaskPatternCache& patterns;
  bool newest_last = false;  // see LabeledGraph
};

// `product` contracts the keys' axis of its input `weights_input` (a score) with values. May refuse.
Expected<FoundAttention> match_product(const AttentionContext& context, const onnx::Node& product, int weights_input);

// GroupQueryAttention (separate q, k, v; rotary already expanded), MultiHeadAttention without biases, and the standard Attention. May
// refuse.
Expected<FoundAttention> match_operator(const AttentionContext& context, const onnx::Node& node);

}  // namespace kvik::native
