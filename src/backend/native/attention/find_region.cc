#include "backend/native/attention/find_region.h"

#include <fmt/format.h>
#include <functional>
#include <unordered_set>

#include "backend/native/probe/arrange.h"

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::ValueId;

// The first values that satisfy `stop` on the ways back from `start` over scores.
std::vector<ValueId> walk_back(const Labels& labels, ValueId start, const std::function<bool(ValueId, const Node&)>& stop) {
  const onnx::Graph& graph = labels.flat->graph;
  std::vector<ValueId> stack = {start}, found;
  std::unordered_set<ValueId> seen;
  while (!stack.empty()) {
    const ValueId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second || graph.value(id).producer == onnx::kNoNode) continue;
    const Node& node = graph.nodes[static_cast<size_t>(graph.value(id).producer)];
    if (stop(id, node)) {
      found.push_back(id);
      continue;
    }
    for (const ValueId input : node.inputs) {
      if (input != onnx::kNoValue && labels[input].is_score) stack.push_back(input);
    }
  }
  return found;
}

// The one symbol of a softmax's axis; scores of several keys or heads in one axis would be weighed against each other.
Expected<Symbol> softmax_symbol(const Node& softmax, const Axes& axes) {
  const auto rank = static_cast<int64_t>(axes.size());
  const int64_t given = softmax.int_or("axis", softmax.opset >= 13 ? -1 : 1);
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank) return refuse(softmax, fmt::format("its axis {} is out of range for {}", given, to_string(axes)));
  Axis softmaxed = axes[static_cast<size_t>(axis)];
  if (softmax.opset < 13) {
    for (size_t i = static_cast<size_t>(axis) + 1; i < axes.size(); ++i) softmaxed.insert(softmaxed.end(), axes[i].begin(), axes[i].end());
  }
  if (softmaxed.size() != 1 || !softmaxed[0].is_symbol()) {
    return refuse(softmax, fmt::format("it is over {} of {}; only the keys were expected", to_string(softmaxed), to_string(axes)));
  }
  return softmaxed[0].symbol;
}

Expected<> find_softmax(const Labels& labels, Region& region) {
  const onnx::Graph& graph = labels.flat->graph;
  const auto found = walk_back(labels, region.weights, [](ValueId, const Node& node) { return node.op == "Softmax"; });
  if (found.size() > 1)
    return refuse(*region.weights_values, fmt::format("its weights come from {} softmaxes; one was expected", found.size()));
  if (found.empty()) return {};
  const Node& softmax = graph.nodes[static_cast<size_t>(graph.value(found[0]).producer)];
  region.softmax_in = softmax.inputs.at(0);
  region.softmax_out = found[0];
  KVIK_TRY(region.softmaxed, softmax_symbol(softmax, labels[region.softmax_in].axes));
  if (region.softmaxed != region.keys && !(region.softmaxed == Symbol::kTotalAndSink && region.keys == Symbol::kTotal)) {
    return refuse(softmax, "it is not over the keys");
  }
  return {};
}

// In a graph without a past keys are rows like queries.
int query_input_of(const Labels& labels, const Node& query_key) {
  const auto is_key = [&](size_t i) {
    const Axes& axes = labels[query_key.inputs.at(i)].axes;
    return holds(axes, Symbol::kTotal) || holds(axes, Symbol::kSource);
  };
  if (is_key(0) == is_key(1)) return labels.keys_on_left ? 1 : 0;
  return is_key(0) ? 1 : 0;
}

}  // namespace

Expected<Region> find_region(const AttentionContext& context, const Node& product, int weights_input) {
  const Labels& labels = context.labels;
  Region region;
  region.weights_values = &product;
  region.weights_input = weights_input;
  region.weights = product.inputs.at(static_cast<size_t>(weights_input));
  const Axes& axes = labels[region.weights].axes;
  region.keys = holds(axes, Symbol::kSource) ? Symbol::kSource : Symbol::kTotal;
  region.softmaxed = region.keys;
  KVIK_CHECK(find_softmax(labels, region));

  const auto products = walk_back(labels, region.softmax_expanded() ? region.weights : region.softmax_in,
                                  [&](ValueId id, const Node&) { return labels.query_key.contains(id); });
  if (products.size() != 1) {
    return refuse(product, fmt::format("its weights come from {} products of queries and keys; one was expected", products.size()));
  }
  region.product = region.scores = products[0];
  const ValueId last_score = region.softmax_expanded() ? region.weights : region.softmax_in;
  KVIK_TRY(region.score_roundings, find_roundings(context, region.product, last_score));
  if (!region.score_roundings.empty()) region.scores = region.score_roundings.back().to;
  if (!region.softmax_expanded()) { KVIK_TRY(region.weight_roundings, find_roundings(context, region.softmax_out, region.weights)); }
  region.query_key = &labels.flat->graph.nodes[static_cast<size_t>(labels.query_key.at(products[0]))];
  region.query_input = query_input_of(labels, *region.query_key);
  region.n_heads = row_elements(labels[region.scores].axes);
  const auto same_heads = [&](ValueId id) { return id == onnx::kNoValue || row_elements(labels[id].axes) == region.n_heads; };
  if (!same_heads(region.softmax_in) || !same_heads(region.weights)) {
    return refuse(product, fmt::format("{} heads of scores become {} of weights", region.n_heads, row_elements(axes)));
  }
  return region;
}

}  // namespace kvik::native
