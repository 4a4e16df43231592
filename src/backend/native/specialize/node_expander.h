#pragma once

#include <string>
#include <vector>

#include "backend/native/label/graph_labeler.h"

namespace kvik::native {

// Appends the nodes that one node stands for. Attribute names and operators are literals.
class NodeExpander {
 public:
  struct NewNode {
    std::string_view op;
    std::vector<onnx::ValueId> inputs;
    std::vector<onnx::Attribute> attributes = {};
    std::string_view domain = {};
    int opset = 23;
  };

  NodeExpander(GraphLabeler& labeler, onnx::NodeId id) : labeler_(labeler), node_(labeler.flat().graph.nodes[static_cast<size_t>(id)]) {}

  GraphLabeler& labeler() { return labeler_; }
  const onnx::Node& node() const { return node_; }
  onnx::ValueId input(size_t i) const { return i < node_.inputs.size() ? node_.inputs[i] : onnx::kNoValue; }
  onnx::ValueId output(size_t i) const { return i < node_.outputs.size() ? node_.outputs[i] : onnx::kNoValue; }
  bool has(size_t i) const { return input(i) != onnx::kNoValue; }
  const Label& label(size_t i) const;
  bool is_row(size_t i) const { return has(i) && label(i).kind == Label::Kind::kRow; }
  int64_t last_size(size_t i) const;  // of the last axis of rows, or of a constant
  size_t rank(size_t i) const;

  onnx::ValueId ints(std::vector<int64_t> values);  // a constant list
  onnx::ValueId scalar(int64_t value);
  onnx::ValueId add(NewNode made);  // its only output
  std::vector<onnx::ValueId> add(NewNode made, size_t n_outputs);
  void into(std::vector<onnx::ValueId> outputs, NewNode made);  // the outputs of the node itself
  onnx::ValueId split_part(onnx::ValueId value, const std::vector<int64_t>& parts, size_t part);

  // Positions [batch, new] of rows: an input that no file declares.
  onnx::ValueId positions();

  // An auxiliary input that must be what a runtime of rows implies; refuses where it is not.
  void require_equal(size_t i, const std::function<int64_t(const Sizes&)>& expected, std::string_view what);
  void require_open_mask(size_t i);

  [[noreturn]] void refuse(const std::string& reason) const { throw Refusal(node_, reason); }

 private:
  onnx::ValueId new_value(std::string_view op);

  GraphLabeler& labeler_;
  onnx::Node node_;
};

}  // namespace kvik::native
