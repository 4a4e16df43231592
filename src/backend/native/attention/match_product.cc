#include <fmt/format.h>
#include <utility>

#include "backend/native/attention/confirm.h"
#include "backend/native/attention/key_value_layout.h"

namespace kvik::native {

namespace {

// What is rounded comes first, then what was probed behind it.
Expected<> add_roundings(const Region& region, const std::vector<float>& factors, Attend& attend) {
  for (const ScoreRounding& one : region.score_roundings) attend.score_roundings.push_back(one.rounding);
  for (const ScoreRounding& one : region.weight_roundings) attend.weight_roundings.push_back(one.rounding);
  if (!factors.empty()) {
    attend.score_roundings.back().unit *= std::exchange(attend.scale, factors.front());
    for (size_t i = 1; i < factors.size(); ++i) attend.score_roundings[i - 1].unit *= factors[i];
    attend.words += ", scores rounded";
  }
  if (!attend.weight_roundings.empty()) attend.words += ", weights rounded";
  if (!attend.weight_roundings.empty() && !attend.sinks.empty()) return refuse(*region.weights_values, "it has a sink and rounds weights");
  return {};
}

Expected<MaskPattern> pattern_of(const AttentionContext& context, const Region& region) {
  ValueNumbers& numbers = context.numbers;
  std::string key = fmt::format("{} {}", numbers.between(region.product, region.weights), region.softmax_expanded());
  if (!region.softmax_expanded()) key += " " + numbers.between(region.product, region.softmax_in);
  key += to_string(context.labels[region.weights].axes) + to_string(context.labels[region.product].axes);
  const auto known = context.patterns.known.find(key);
  if (known != context.patterns.known.end()) return known->second;

  RegionScores source(context, region);
  KVIK_TRY(const Sizes sizes, sizes_at(context.labels, {.past = 3, .fresh = 4, .batch = 2, .source = 6}));
  KVIK_CHECK(source.require_untouched_weights(sizes));
  KVIK_TRY(const std::vector<float> factors, source.factors_before_roundings(sizes));
  const MaskProbe mask = {.node = *region.weights_values,
                          .source = source,
                          .n_heads = region.n_heads,
                          .from_source = region.keys == Symbol::kSource,
                          .softmax_expanded = region.softmax_expanded(),
                          .score_function = {}};
  KVIK_TRY(MaskPattern pattern, probe_mask(context, mask));
  KVIK_CHECK(add_roundings(region, factors, pattern.attend));
  return context.patterns.known[key] = std::move(pattern);
}

}  // namespace

Expected<FoundAttention> match_product(const AttentionContext& context, const onnx::Node& product, int weights_input) {
  KVIK_TRY(const Region region, find_region(context, product, weights_input));
  KVIK_TRY(const MaskPattern pattern, pattern_of(context, region));
  FoundAttention found;
  found.attend = pattern.attend;
  found.limit = pattern.limit;
  found.new_tokens_see_all = pattern.new_tokens_see_all;
  found.whole_prompt = pattern.whole_prompt;
  found.operands = {region.q(), region.k(), region.v()};
  KVIK_CHECK(set_layout(context.labels, region, found.attend));
  const auto axes = [&](size_t i) { return context.labels[product.inputs.at(i)].axes; };
  KVIK_TRY(Axes out_axes, product_axes(product, axes(0), axes(1)));
  const AttentionNodes nodes = {.node = product,
                                .operands = found.operands,
                                .out = product.outputs.at(0),
                                .out_axes = std::move(out_axes),
                                .one_row = pattern.new_tokens_see_all,
                                .whole_prompt = pattern.whole_prompt,
                                .limit = pattern.limit};
  KVIK_CHECK(confirm(context, nodes, found.attend));
  read_from_sources(context, found);
  return found;
}

}  // namespace kvik::native
