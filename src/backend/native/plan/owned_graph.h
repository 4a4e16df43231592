#pragma once

#include <deque>
#include <functional>
#include <string>

#include "onnx/graph.h"

namespace kvik::native {

// Nodes copied out of a model's graph, so that they outlive it. It owns its strings; its tensors keep the mapped files alive.
class OwnedGraph {
 public:
  using Renumber = std::function<onnx::ValueId(onnx::ValueId)>;

  OwnedGraph() = default;
  OwnedGraph(const OwnedGraph&) = delete;
  OwnedGraph& operator=(const OwnedGraph&) = delete;

  const onnx::Graph& graph() const { return graph_; }
  onnx::Graph& graph() { return graph_; }

  // The same text, for as long as this graph lives.
  std::string_view keep(std::string_view text);
  onnx::ValueId add_value(std::string_view name);
  onnx::ValueId add_initializer(std::string_view name, const onnx::TensorData& data);
  // Appends a copy of a node, including subgraphs, and sets producers; `renumber` maps its values to values of this graph.
  onnx::NodeId add_node(const onnx::Node& node, const Renumber& renumber);
  // Appends a copy of a node that runs by itself, so that its value numbers are not used.
  onnx::NodeId add_single_node(const onnx::Node& node);

 private:
  onnx::Node copy(const onnx::Node& node, const Renumber& renumber);
  onnx::Attribute::Data copy(const onnx::Attribute::Data& data, const Renumber& renumber);
  std::shared_ptr<const onnx::Graph> copy(const onnx::Graph& graph, const Renumber& renumber_outer);

  onnx::Graph graph_;
  std::deque<std::string> strings_;
};

// Without the strings, which belong to the model.
onnx::TensorData without_names(onnx::TensorData data);

}  // namespace kvik::native
