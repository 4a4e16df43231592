#include "backend/native/attention/attention.h"

#include "backend/native/attention/context.h"

namespace kvik::native {

Outcome<std::vector<FoundAttention>> match_attentions(CompileState& state, LabeledGraph& labeled) {
  MaskPatternCache patterns;
  const AttentionContext context = {state.labels,    state.probes, state.constants,    state.options.context,
                                    labeled.numbers, patterns,     labeled.newest_last};
  std::vector<FoundAttention> all;
  for (const AttentionSite& site : labeled.attentions) {
    const onnx::Node& node = state.node(site.node);
    Expected<FoundAttention> found =
        site.weights_input < 0 ? match_operator(context, node) : match_product(context, node, site.weights_input);
    if (!found) return std::move(found).refusal().about(node);
    all.push_back(std::move(*found));
  }
  return all;
}

}  // namespace kvik::native
