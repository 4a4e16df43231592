#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "onnx/graph.h"

namespace kvik::analysis {

// A value of a Flow: unique across the graph and its subgraphs.
using FlowValue = int32_t;
using FlowNodeId = int32_t;
inline constexpr int32_t kNone = -1;

struct FlowNode {
  std::string_view op;
  std::string_view domain;
  const onnx::Node* node = nullptr;  // null for a merge, which is not in the file
  std::vector<FlowValue> inputs;     // kNone: omitted
  std::vector<FlowValue> outputs;

  bool is(std::string_view name) const { return op == name; }
  FlowValue input(size_t i) const { return i < inputs.size() ? inputs[i] : kNone; }
  FlowValue output(size_t i) const { return i < outputs.size() ? outputs[i] : kNone; }
};

// The result of a branch, loop or scan: one of its inputs.
inline constexpr std::string_view kMerge = "kvik.Merge";

// A graph with its subgraphs flattened, so that a walk from an input to an output passes through branches: a captured value is the value
// it captures, and an output of an If is a merge of the results of both branches. Nodes are in execution order. The graph must outlive
// the flow.
class Flow {
 public:
  explicit Flow(const onnx::Graph& graph);

  const std::vector<FlowNode>& nodes() const { return nodes_; }
  const FlowNode& node(FlowNodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  size_t n_values() const { return values_.size(); }
  const std::vector<FlowValue>& inputs() const { return inputs_; }    // in the order of Graph::inputs
  const std::vector<FlowValue>& outputs() const { return outputs_; }  // in the order of Graph::outputs

  // The node that computes a value; null for inputs and weights.
  const FlowNode* producer(FlowValue value) const;
  // The nodes that read a value, in order.
  const std::vector<FlowNodeId>& readers(FlowValue value) const { return readers_[static_cast<size_t>(value)]; }
  const std::optional<onnx::ValueType>& type(FlowValue value) const { return at(value).type; }

  // The tensor of an initializer or of a Constant node; null for everything else.
  const onnx::TensorData* constant(FlowValue value) const;
  bool is_input(FlowValue value) const { return input_index_[static_cast<size_t>(value)] >= 0; }
  int input_index(FlowValue value) const { return input_index_[static_cast<size_t>(value)]; }  // -1 if it is not an input

 private:
  std::vector<FlowValue> number(const onnx::Graph& graph, const std::vector<FlowValue>& outer);
  std::vector<FlowValue> flatten(const onnx::Graph& graph, const std::vector<FlowValue>& outer);
  void flatten_node(const onnx::Node& node, const std::vector<FlowValue>& ids);
  void flatten_loop(const onnx::Node& node, const onnx::Graph& body, const std::vector<FlowValue>& ids);
  void add_merge(std::vector<FlowValue> from, FlowValue to);
  const onnx::Value& at(FlowValue value) const { return *values_[static_cast<size_t>(value)].value; }

  struct Entry {
    const onnx::Value* value;
    const onnx::Graph* graph;
    FlowNodeId producer;
  };
  std::vector<Entry> values_;
  std::vector<FlowNode> nodes_;
  std::vector<std::vector<FlowNodeId>> readers_;
  std::vector<int> input_index_;
  std::vector<FlowValue> inputs_, outputs_;
};

}  // namespace kvik::analysis
