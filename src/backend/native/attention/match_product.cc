#include <fmt/format.h>

#include "backend/native/attention/confirm.h"
#include "backend/native/attention/key_value_layout.h"

namespace kvik::native {

namespace {

MaskPattern pattern_of(const AttentionContext& context, const Region& region) {
  ValueNumbers& numbers = context.numbers;
  std::string key = fmt::format("{} {}", numbers.between(region.scores, region.weights), region.softmax_expanded());
  if (!region.softmax_expanded()) key += " " + numbers.between(region.scores, region.softmax_in);
  key += to_string(context.labels[region.weights].axes) + to_string(context.labels[region.scores].axes);
  const auto known = context.patterns.known.find(key);
  if (known != context.patterns.known.end()) return known->second;

  RegionScores source(context, region);
  source.require_untouched_weights(sizes_at(context.labels, {.past = 3, .fresh = 4, .batch = 2, .source = 6}));
  const MaskProbe mask = {.node = *region.weights_values,
                          .source = source,
                          .n_heads = region.n_heads,
                          .from_source = region.keys == Symbol::kSource,
                          .softmax_expanded = region.softmax_expanded(),
                          .score_function = {}};
  return context.patterns.known[key] = probe_mask(context, mask);
}

}  // namespace

FoundAttention match_product(const AttentionContext& context, const onnx::Node& product, int weights_input) {
  const Region region = find_region(context.labels, product, weights_input);
  const MaskPattern pattern = pattern_of(context, region);
  FoundAttention found;
  found.attend = pattern.attend;
  found.limit = pattern.limit;
  found.new_tokens_see_all = pattern.new_tokens_see_all;
  found.operands = {region.q(), region.k(), region.v()};
  set_layout(context.labels, region, found.attend);
  const auto axes = [&](size_t i) { return context.labels[product.inputs.at(i)].axes; };
  const AttentionNodes nodes = {.node = product,
                                .operands = found.operands,
                                .out = product.outputs.at(0),
                                .out_axes = product_axes(product, axes(0), axes(1)),
                                .one_row = pattern.new_tokens_see_all,
                                .limit = pattern.limit};
  confirm(context, nodes, found.attend);
  read_from_sources(context, found);
  return found;
}

}  // namespace kvik::native
