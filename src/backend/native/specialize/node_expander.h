#pragma once

#include <string>
#include <vector>

#include "backend/native/probe/compile_state.h"

namespace kvik::native {

// Appends the primitive nodes that replace one node. Attribute names and operators are literals. An index of -1: the operator does not have
// this input.
class NodeExpander {
 public:
  struct NewNode {
    std::string_view op;
    std::vector<onnx::ValueId> inputs;
    std::vector<onnx::Attribute> attributes = {};
    std::string_view domain = {};
    int opset = 23;
  };

  NodeExpander(CompileState& state, onnx::NodeId id) : state_(state), node_(state.node(id)) {}

  CompileState& state() { return state_; }
  FlatGraph& flat() { return *state_.flat; }
  const onnx::Node& node() const { return node_; }
  onnx::ValueId input(int i) const { return at(node_.inputs, i); }
  onnx::ValueId output(int i) const { return at(node_.outputs, i); }
  bool has(int i) const { return input(i) != onnx::kNoValue; }
  const Label& label(int i) const;
  bool is_row(int i) const { return has(i) && label(i).kind == Label::Kind::kRow; }
  Expected<int64_t> last_size(int i);  // of the last axis of rows, or of a tensor at every size
  Expected<size_t> rank(int i);

  onnx::ValueId ints(std::vector<int64_t> values);  // a constant list
  onnx::ValueId scalar(int64_t value);
  onnx::ValueId add(NewNode made);  // its only output
  std::vector<onnx::ValueId> add(NewNode made, size_t n_outputs);
  void into(std::vector<onnx::ValueId> outputs, NewNode made);  // the outputs of the node itself

  // Positions [batch, new] of rows: an input that the file does not declare.
  onnx::ValueId positions();

  // Checks that an auxiliary input has the contents that a run over rows implies; refuses otherwise.
  Expected<> require_equal(int i, const std::function<int64_t(const Sizes&)>& expected, std::string_view what);
  Expected<> require_open_mask(int i);

  Refusal refuse(std::string reason) const { return native::refuse(node_, std::move(reason)); }

 private:
  static onnx::ValueId at(const std::vector<onnx::ValueId>& values, int i) {
    return i >= 0 && static_cast<size_t>(i) < values.size() ? values[static_cast<size_t>(i)] : onnx::kNoValue;
  }
  onnx::ValueId new_value(std::string_view op);

  CompileState& state_;
  onnx::Node node_;
};

}  // namespace kvik::native
