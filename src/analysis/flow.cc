#include "analysis/flow.h"

namespace kvik::analysis {
namespace {

const onnx::Graph* subgraph(const onnx::Node& node, std::string_view name) {
  const onnx::Attribute* attribute = node.find(name);
  if (attribute == nullptr) return nullptr;
  const auto* graph = std::get_if<std::shared_ptr<const onnx::Graph>>(&attribute->data);
  return graph == nullptr ? nullptr : graph->get();
}

std::vector<FlowValue> mapped(const std::vector<onnx::ValueId>& values, const std::vector<FlowValue>& ids) {
  std::vector<FlowValue> result;
  result.reserve(values.size());
  for (const onnx::ValueId value : values) result.push_back(value == onnx::kNoValue ? kNone : ids[static_cast<size_t>(value)]);
  return result;
}

}  // namespace

Flow::Flow(const onnx::Graph& graph) {
  const std::vector<FlowValue> ids = flatten(graph, {});
  inputs_ = mapped(graph.inputs, ids);
  outputs_ = mapped(graph.outputs, ids);

  readers_.resize(values_.size());
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (const FlowValue value : nodes_[n].inputs) {
      if (value == kNone) continue;
      std::vector<FlowNodeId>& list = readers_[static_cast<size_t>(value)];
      if (list.empty() || list.back() != static_cast<FlowNodeId>(n)) list.push_back(static_cast<FlowNodeId>(n));
    }
  }
  input_index_.assign(values_.size(), -1);
  for (size_t i = 0; i < inputs_.size(); ++i) input_index_[static_cast<size_t>(inputs_[i])] = static_cast<int>(i);
}

const FlowNode* Flow::producer(FlowValue value) const {
  const FlowNodeId id = values_[static_cast<size_t>(value)].producer;
  return id == kNone ? nullptr : &node(id);
}

const onnx::TensorData* Flow::constant(FlowValue value) const {
  const Entry& entry = values_[static_cast<size_t>(value)];
  if (entry.value->initializer >= 0) return &entry.graph->initializers[static_cast<size_t>(entry.value->initializer)];
  const FlowNode* made_by = producer(value);
  if (made_by == nullptr || made_by->node == nullptr || !made_by->is("Constant")) return nullptr;
  const onnx::Attribute* attribute = made_by->node->find("value");
  return attribute == nullptr ? nullptr : std::get_if<onnx::TensorData>(&attribute->data);
}

std::vector<FlowValue> Flow::number(const onnx::Graph& graph, const std::vector<FlowValue>& outer) {
  std::vector<FlowValue> ids;
  ids.reserve(graph.values.size());
  for (const onnx::Value& value : graph.values) {
    if (value.outer != onnx::kNoValue) {
      ids.push_back(outer[static_cast<size_t>(value.outer)]);
      continue;
    }
    ids.push_back(static_cast<FlowValue>(values_.size()));
    values_.push_back({&value, &graph, kNone});
  }
  return ids;
}

std::vector<FlowValue> Flow::flatten(const onnx::Graph& graph, const std::vector<FlowValue>& outer) {
  std::vector<FlowValue> ids = number(graph, outer);
  for (const onnx::Node& node : graph.nodes) flatten_node(node, ids);
  return ids;
}

void Flow::flatten_node(const onnx::Node& node, const std::vector<FlowValue>& ids) {
  if (node.domain.empty() && node.op == "If") {
    const onnx::Graph* branches[] = {subgraph(node, "then_branch"), subgraph(node, "else_branch")};
    std::vector<std::vector<FlowValue>> results;
    for (const onnx::Graph* branch : branches) {
      if (branch != nullptr) results.push_back(mapped(branch->outputs, flatten(*branch, ids)));
    }
    nodes_.push_back({node.op, node.domain, &node, mapped(node.inputs, ids), {}});
    const std::vector<FlowValue> outputs = mapped(node.outputs, ids);
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::vector<FlowValue> from;
      for (const std::vector<FlowValue>& result : results) {
        if (i < result.size()) from.push_back(result[i]);
      }
      add_merge(std::move(from), outputs[i]);
    }
    return;
  }
  if (const onnx::Graph* body = subgraph(node, "body")) return flatten_loop(node, *body, ids);

  const auto id = static_cast<FlowNodeId>(nodes_.size());
  nodes_.push_back({node.op, node.domain, &node, mapped(node.inputs, ids), mapped(node.outputs, ids)});
  for (const FlowValue value : nodes_.back().outputs) {
    if (value != kNone) values_[static_cast<size_t>(value)].producer = id;
  }
}

// Loop: inputs are count, condition, states; the body takes (iteration, condition, states) and gives (condition, states,
// scanned). Scan: states, sequences in the same order on both sides. Values passed from one
// iteration to the next are left out: the first iteration has every path.
void Flow::flatten_loop(const onnx::Node& node, const onnx::Graph& body, const std::vector<FlowValue>& ids) {
  const std::vector<FlowValue> inputs = mapped(node.inputs, ids);
  const std::vector<FlowValue> body_ids = number(body, ids);
  const std::vector<FlowValue> body_inputs = mapped(body.inputs, body_ids);
  const bool is_loop = node.op == "Loop";
  for (size_t i = 0; i < body_inputs.size() && i < inputs.size(); ++i) {
    if (inputs[i] != kNone && !(is_loop && i == 0)) add_merge({inputs[i]}, body_inputs[i]);
  }
  for (const onnx::Node& inner : body.nodes) flatten_node(inner, body_ids);
  std::vector<FlowValue> results = mapped(body.outputs, body_ids);
  if (is_loop && !results.empty()) results.erase(results.begin());
  const std::vector<FlowValue> outputs = mapped(node.outputs, ids);
  const size_t first_state = is_loop ? 2 : 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::vector<FlowValue> from;
    if (i < results.size()) from.push_back(results[i]);
    if (first_state + i < inputs.size() && inputs[first_state + i] != kNone) from.push_back(inputs[first_state + i]);
    add_merge(std::move(from), outputs[i]);
  }
}

void Flow::add_merge(std::vector<FlowValue> from, FlowValue to) {
  if (to == kNone) return;
  values_[static_cast<size_t>(to)].producer = static_cast<FlowNodeId>(nodes_.size());
  nodes_.push_back({kMerge, {}, nullptr, std::move(from), {to}});
}

}  // namespace kvik::analysis
