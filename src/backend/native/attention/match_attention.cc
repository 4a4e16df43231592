#include <fmt/format.h>

#include "backend/native/attention/confirm.h"
#include "backend/native/attention/key_value_layout.h"
#include "backend/native/attention/mask_pattern_cache.h"

namespace kvik::native {

std::shared_ptr<MaskPatternCache> new_mask_pattern_cache() { return std::make_shared<MaskPatternCache>(); }

bool same_computation(const AttentionContext& context, onnx::ValueId a, onnx::ValueId b) {
  Numbering& numbering = context.rules->numbering(context);
  return a == b || numbering.number(a) == numbering.number(b);
}

namespace {

MaskPattern rule_of(const AttentionContext& context, const Region& region) {
  Numbering& numbering = context.rules->numbering(context);
  std::string key = fmt::format("{} {}", numbering.between(region.scores, region.weights), region.softmax_expanded());
  if (!region.softmax_expanded()) key += " " + numbering.between(region.scores, region.softmax_in);
  key += to_string(context.labels[region.weights].axes) + to_string(context.labels[region.scores].axes);
  const auto known = context.rules->rules.find(key);
  if (known != context.rules->rules.end()) return known->second;

  RegionScores source(context, region);
  source.require_untouched_weights(sizes_at(context.labels, 3, 4, 2, 6));
  const MaskProbe question = {.node = *region.weights_values,
                              .source = source,
                              .n_heads = region.n_heads,
                              .from_source = region.keys == Symbol::kSource,
                              .softmax_expanded = region.softmax_expanded(),
                              .score_function = {}};
  return context.rules->rules[key] = probe_mask(context, question);
}

FoundAttention match_region(const AttentionContext& context, const Region& region) {
  const MaskPattern rule = rule_of(context, region);
  FoundAttention found;
  found.attend = rule.attend;
  found.limit = rule.limit;
  found.new_tokens_see_all = rule.new_tokens_see_all;
  found.q = region.q();
  found.k = region.k();
  found.v = region.v();
  found.attend.node = region.weights_values->describe();
  set_layout(context.labels, region, found.attend);
  const auto axes = [&](size_t i) { return context.labels[region.weights_values->inputs.at(i)].axes; };
  const AttentionNodes nodes = {.node = *region.weights_values,
                                .q = found.q,
                                .k = found.k,
                                .v = found.v,
                                .out = region.weights_values->outputs.at(0),
                                .out_axes = product_axes(*region.weights_values, axes(0), axes(1)),
                                .one_row = rule.new_tokens_see_all,
                                .limit = rule.limit};
  confirm(context, nodes, found.attend);
  read_from_sources(context, found);
  return found;
}

}  // namespace

FoundAttention match_attention(const AttentionContext& context, const onnx::Node& product, int weights_input) {
  try {
    return match_region(context, find_region(context.labels, product, weights_input));
  } catch (const Refusal& refusal) {
    const std::string_view reason = refusal.what();
    if (reason.starts_with("node ")) throw;
    throw Refusal(product, std::string(reason));
  } catch (const Error& error) {
    throw Refusal(product, fmt::format("what lies between it and the product of queries and keys cannot be evaluated ({})", error.what()));
  }
}

}  // namespace kvik::native
