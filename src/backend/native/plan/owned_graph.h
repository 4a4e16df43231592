#pragma once

#include <deque>
#include <functional>
#include <string>

#include "onnx/graph.h"

namespace kvik::native {

// Nodes copied out of a model's graph, so that they outlive it. Strings are its own; tensors keep the files mapped that hold them.
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
  // Appends a copy of a node, subgraphs included, and sets producers; `renumber` gives the values of this graph for those it names.
  onnx::NodeId add_node(const onnx::Node& node, const Renumber& renumber);
  // Appends a copy of a node that runs by itself: the numbers of its values mean nothing here.
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
