#include "backend/native/plan/owned_graph.h"

namespace kvik::native {
namespace {

using onnx::Attribute;
using onnx::Graph;
using onnx::Node;
using onnx::TensorData;
using onnx::ValueId;

}  // namespace

TensorData without_names(TensorData data) {
  data.name = {};
  data.external_file = {};
  return data;
}

std::string_view OwnedGraph::keep(std::string_view text) {
  if (text.empty()) return {};
  return strings_.emplace_back(text);
}

ValueId OwnedGraph::add_value(std::string_view name) {
  graph_.values.push_back({.name = keep(name)});
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId OwnedGraph::add_initializer(std::string_view name, const TensorData& data) {
  const ValueId id = add_value(name);
  graph_.values.back().initializer = static_cast<int>(graph_.initializers.size());
  graph_.initializers.push_back(without_names(data));
  graph_.initializers.back().name = graph_.values.back().name;
  return id;
}

onnx::NodeId OwnedGraph::add_node(const Node& node, const Renumber& renumber) {
  const auto id = static_cast<onnx::NodeId>(graph_.nodes.size());
  Node copied = copy(node, renumber);
  for (const ValueId output : copied.outputs) {
    if (output != onnx::kNoValue) graph_.values[static_cast<size_t>(output)].producer = id;
  }
  graph_.nodes.push_back(std::move(copied));
  return id;
}

onnx::NodeId OwnedGraph::add_single_node(const Node& node) {
  graph_.nodes.push_back(copy(node, [](ValueId id) { return id; }));
  return static_cast<onnx::NodeId>(graph_.nodes.size() - 1);
}

Node OwnedGraph::copy(const Node& node, const Renumber& renumber) {
  Node copied;
  copied.op = keep(node.op);
  copied.domain = keep(node.domain);
  copied.name = keep(node.name);
  copied.opset = node.opset;
  const auto all = [&](const std::vector<ValueId>& ids) {
    std::vector<ValueId> renumbered;
    for (const ValueId id : ids) renumbered.push_back(id == onnx::kNoValue ? id : renumber(id));
    return renumbered;
  };
  copied.inputs = all(node.inputs);
  copied.outputs = all(node.outputs);
  copied.captures = all(node.captures);
  for (const Attribute& attribute : node.attributes) copied.attributes.push_back({keep(attribute.name), copy(attribute.data, renumber)});
  return copied;
}

Attribute::Data OwnedGraph::copy(const Attribute::Data& data, const Renumber& renumber) {
  Attribute::Data copied = data;
  if (auto* text = std::get_if<std::string_view>(&copied)) *text = keep(*text);
  if (auto* texts = std::get_if<std::vector<std::string_view>>(&copied)) {
    for (std::string_view& text : *texts) text = keep(text);
  }
  if (auto* tensor = std::get_if<TensorData>(&copied)) *tensor = without_names(*tensor);
  if (auto* tensors = std::get_if<std::vector<TensorData>>(&copied)) {
    for (TensorData& tensor : *tensors) tensor = without_names(tensor);
  }
  if (auto* graph = std::get_if<std::shared_ptr<const Graph>>(&copied)) *graph = copy(**graph, renumber);
  if (auto* graphs = std::get_if<std::vector<std::shared_ptr<const Graph>>>(&copied)) {
    for (std::shared_ptr<const Graph>& graph : *graphs) graph = copy(*graph, renumber);
  }
  return copied;
}

// A subgraph keeps its own numbers; only what it captures is numbered by the graph around it.
std::shared_ptr<const Graph> OwnedGraph::copy(const Graph& graph, const Renumber& renumber_outer) {
  auto copied = std::make_shared<Graph>();
  copied->name = keep(graph.name);
  for (const onnx::Value& value : graph.values) {
    onnx::Value& to = copied->values.emplace_back();
    to.name = keep(value.name);
    to.producer = value.producer;
    to.initializer = value.initializer;
    if (value.outer != onnx::kNoValue) to.outer = renumber_outer(value.outer);
  }
  for (const Node& node : graph.nodes) copied->nodes.push_back(copy(node, [](ValueId id) { return id; }));
  for (const TensorData& data : graph.initializers) copied->initializers.push_back(without_names(data));
  copied->inputs = graph.inputs;
  copied->defaulted_inputs = graph.defaulted_inputs;
  copied->outputs = graph.outputs;
  return copied;
}

}  // namespace kvik::native
