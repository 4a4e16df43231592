#include "backend/native/attention/find_roundings.h"

#include <fmt/format.h>

#include "backend/native/graph/rounding.h"

namespace kvik::native {
namespace {

using onnx::Node;
using onnx::ValueId;

bool is_quantize(const Node& node) { return node.op == "QuantizeLinear"; }
bool is_dequantize(const Node& node) { return node.op == "DequantizeLinear"; }

Expected<std::optional<CodeGrid>> grid_of(const AttentionContext& context, const Node& node, DType otherwise) {
  const auto constant = [&](size_t i) -> Expected<Tensor> {
    const bool given = i < node.inputs.size() && node.inputs[i] != onnx::kNoValue;
    const bool known = given && context.labels[node.inputs[i]].kind == Label::Kind::kConstant;
    return known ? context.constants.get(node.inputs[i]) : Tensor();
  };
  KVIK_TRY(const Tensor scale, constant(1));
  KVIK_TRY(const Tensor zero_point, constant(2));
  const bool has_zero_point = node.inputs.size() > 2 && node.inputs[2] != onnx::kNoValue;
  return code_grid(scale, has_zero_point ? &zero_point : nullptr, otherwise);
}

}  // namespace

Expected<std::vector<ScoreRounding>> find_roundings(const AttentionContext& context, ValueId start, ValueId end) {
  const onnx::Graph& graph = context.labels.flat->graph;
  const auto known = [&](ValueId id) { return id == start || !context.labels[id].is_score; };
  std::vector<ScoreRounding> found;
  const Node* quantize = nullptr;
  for (const onnx::NodeId n : nodes_needed(graph, end, known)) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    const bool reads_codes = quantize != nullptr && node.inputs.at(0) == quantize->outputs.at(0);
    if (quantize != nullptr && !(reads_codes && is_dequantize(node))) return refuse(node, "it computes with the codes of rounded scores");
    if (is_quantize(node)) {
      quantize = &node;
    } else if (reads_codes) {
      KVIK_TRY(const std::optional<CodeGrid> to, grid_of(context, *quantize, context.labels[quantize->outputs[0]].dtype));
      KVIK_TRY(const std::optional<CodeGrid> from, grid_of(context, node, to ? to->codes : DType::kUndefined));
      const std::optional<Rounding> rounding = to && from ? rounding_of(*to, *from) : std::nullopt;
      if (!rounding) return refuse(node, "it does not round scores with a single normal scale and a zero point of 8 or 16 bits");
      found.push_back({quantize->inputs.at(0), node.outputs.at(0), *rounding});
      quantize = nullptr;
    }
  }
  if (quantize != nullptr) return refuse(*quantize, "it quantizes scores without dequantizing them");
  return found;
}

}  // namespace kvik::native
