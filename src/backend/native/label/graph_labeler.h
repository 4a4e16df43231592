#pragma once

#include <map>
#include <unordered_map>

#include "backend/native/label/emitter.h"
#include "backend/native/label/selections.h"
#include "backend/native/label/value_numbers.h"

namespace kvik::native {

// Labels values one node at a time, each after those it reads, and emits row operations on the way. Only what is asked for is reached.
class GraphLabeler {
 public:
  GraphLabeler(std::shared_ptr<FlatGraph> flat, Labels& labels, const AttentionContext& attention, Emitter& emitter);

  // Throws Refusal that names the node.
  void reach(onnx::ValueId target);

  // Axes of past inputs that the file does not declare, told by what is appended to them.
  std::map<onnx::ValueId, Axes> past_axes;
  bool keys_on_left = false;  // they were taken for queries: labels must be made again
  bool learned_past = false;  // something was added to them: what was labelled before may be wrong
  std::vector<Append> appends;
  std::optional<int64_t> limit;  // positions, from masks
  std::vector<std::string> notes;
  std::vector<TokenId> forbidden_tokens;
  std::vector<std::string> for_one_token;  // attentions in which new tokens see each other both ways: right for one at a time only

  // For rules.
  FlatGraph& flat() { return *flat_; }
  Labels& labels() { return *labels_; }
  Constants& constants() { return attention_.constants; }
  ProbeBank& probes() { return attention_.probes; }
  Emitter& emitter() { return *emitter_; }
  const AttentionContext& attention() const { return attention_; }
  std::span<const Sizes> sizes() const { return sizes_; }
  const std::vector<Tensor>& at_sizes(onnx::ValueId value);  // a constant or auxiliary value at each of sizes()
  Selections& selections() { return selections_; }
  void note_once(std::string note);

 private:
  const onnx::Node& node(onnx::NodeId id) const { return flat_->graph.nodes[static_cast<size_t>(id)]; }
  bool push_missing_inputs(onnx::NodeId id, std::vector<onnx::ValueId>& stack);
  void label_source(onnx::ValueId value);
  void label_node(onnx::NodeId id);
  bool rewrite(onnx::NodeId id);
  bool share(onnx::NodeId id);
  bool branch_for_context(onnx::NodeId id, onnx::ValueId condition, bool at_first);
  void label_constant(const onnx::Node& node);
  void label_auxiliary(const onnx::Node& node);
  void label_row(onnx::NodeId id);
  void apply_rule(onnx::NodeId id);
  void grow();

  std::shared_ptr<FlatGraph> flat_;
  Labels* labels_;
  AttentionContext attention_;
  Emitter* emitter_;
  std::vector<Sizes> sizes_;
  ValueNumbers numbers_;
  std::unordered_map<onnx::ValueId, onnx::ValueId> same_;
  std::vector<bool> opened_;  // by node: its inputs have been asked for
  std::unordered_map<onnx::ValueId, std::vector<Tensor>> at_sizes_;
  Selections selections_;
};

}  // namespace kvik::native
