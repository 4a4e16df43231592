#pragma once

#include <memory>
#include <optional>

#include "backend/native/graph/program.h"
#include "backend/native/probe/probe.h"

// Attention is found from the product of weights and values, and everything between that and the product of queries and keys is probed
// as a function: not read. So masks, windows, biases, caps and guards may be spelled with any nodes.
namespace kvik::native {

// Rules that were inferred already, by what is computed between the two products: layers that compute the same share one.
class MaskPatternCache;
std::shared_ptr<MaskPatternCache> new_mask_pattern_cache();

// One of a compilation.
struct AttentionContext {
  const Labels& labels;
  ProbeBank& probes;
  Constants& constants;
  int64_t context = 0;  // positions to probe up to; 0: unknown
  int64_t beyond = 0;   // of a graph that changes its ways after so many tokens: how it goes on then; 0: what it does from the start
  std::shared_ptr<MaskPatternCache> rules = new_mask_pattern_cache();
};

// True where two auxiliary or constant values are computed alike from the same things, so that one may stand for the other.
bool same_computation(const AttentionContext& context, onnx::ValueId a, onnx::ValueId b);

// RowIds are not known yet: these values stand for q, k and v of `attend`. k and v are the smallest values that hold what the product
// reads (before heads are repeated), with the maps from there.
struct FoundAttention {
  Attend attend;
  onnx::ValueId q = onnx::kNoValue, k = onnx::kNoValue, v = onnx::kNoValue;
  std::optional<int64_t> limit;  // positions beyond which the graph's own mask fails, or its rule could not be proved
  // A graph with a past whose new tokens see each other in both directions. `attend` is its meaning token by token, which is the right
  // one only where something says that the file is for one token at a time.
  bool new_tokens_see_all = false;
  std::vector<std::string> notes;
};

// `product` contracts the keys' axis of its input `weights_input` (a score) with values. Throws Refusal.
FoundAttention match_attention(const AttentionContext& context, const onnx::Node& product, int weights_input);

// GroupQueryAttention (q, k, v apart, rotary taken out before), MultiHeadAttention without biases, Attention of the standard. Throws
// Refusal.
FoundAttention match_attention_operator(const AttentionContext& context, const onnx::Node& node);

// A concatenation of the past and what is new, on the key side.
struct Append {
  onnx::ValueId past = onnx::kNoValue, fresh = onnx::kNoValue;
};

// Feeds what present gave as past and checks that each append sees it again: proves the pairing of inputs and outputs whatever their
// layout. Gives a note; throws Refusal where the past does not hold what present gave.
std::string verify_past(const AttentionContext& context, std::span<const Append> appends);

}  // namespace kvik::native
