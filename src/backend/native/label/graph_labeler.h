#pragma once

#include <unordered_map>

#include "backend/native/label/cache_writes.h"
#include "backend/native/label/label.h"
#include "backend/native/label/selections.h"

namespace kvik::native {

class NodeLabeler;

// Labels values one node at a time, in dependency order, and emits row ops. Only nodes that the target depends on are visited.
class GraphLabeler {
 public:
  GraphLabeler(CompileState& state, const Hints& hints);

  // Labels `target` and everything that it depends on, or returns the refusal.
  std::optional<Stop> reach(onnx::ValueId target);

  LabeledGraph result;
  Hints hints;           // the given hints, and those that were added
  bool learned = false;  // hints were added, so earlier labels may be wrong

  // For rules.
  CompileState& state() { return state_; }
  FlatGraph& flat() { return *state_.flat; }
  Labels& labels() { return state_.labels; }
  Constants& constants() { return state_.constants; }
  ProbeBank& probes() { return state_.probes; }
  Emitter& emitter() { return result.emitter; }
  std::span<const Sizes> sizes() const { return sizes_; }
  Expected<std::vector<Tensor>> at_sizes(onnx::ValueId value) { return state_.at_sizes(value); }
  Selections& selections() { return selections_; }
  void note_once(std::string note);

 private:
  const onnx::Node& node(onnx::NodeId id) const { return state_.node(id); }
  Label& label(onnx::ValueId id) { return state_.labels[id]; }
  bool push_missing_inputs(onnx::NodeId id, std::vector<onnx::ValueId>& stack);
  Expected<> label_source(onnx::ValueId value);
  std::optional<Stop> label_node(onnx::NodeId id);
  std::optional<Stop> take_branch(onnx::NodeId id);
  bool share(onnx::NodeId id);
  Expected<> label_constant(const onnx::Node& node);
  void label_auxiliary(const onnx::Node& node);
  std::optional<Stop> label_row(onnx::NodeId id);
  Expected<> apply_rule(onnx::NodeId id);
  Expected<> label_by_rule(NodeLabeler& op);
  void grow();

  CompileState& state_;
  std::array<Sizes, 3> sizes_;
  std::unordered_map<onnx::ValueId, onnx::ValueId> same_;
  std::vector<bool> opened_;  // by node: its inputs have been visited
  Selections selections_;
  CacheWrites cache_writes_;
};

}  // namespace kvik::native
