#pragma once

#include <optional>

#include "backend/native/label/graph_labeler.h"

namespace kvik::native {

// The interface of a rule to one node, which has at least one operand that is a row value.
class NodeLabeler {
 public:
  NodeLabeler(GraphLabeler& labeler, onnx::NodeId id);

  const onnx::Node& node() const { return node_; }
  onnx::NodeId id() const { return id_; }
  GraphLabeler& labeler() { return labeler_; }
  bool is(std::string_view op) const { return node_.op == op; }
  bool one_token() const;

  size_t n_inputs() const { return node_.inputs.size(); }
  bool has(size_t i) const { return i < node_.inputs.size() && node_.inputs[i] != onnx::kNoValue; }
  bool is_row(size_t i) const { return has(i) && label(i).kind == Label::Kind::kRow; }
  const Label& label(size_t i) const;                      // nullopt if the operand is omitted
  Expected<Axes> axes(size_t i) const;                     // of a row value; refuses other values
  Expected<DType> dtype(size_t i) const;                   // of any operand; refuses an omitted one
  Expected<std::vector<Tensor>> at_sizes(size_t i) const;  // an operand other than a row value, for each of sizes()
  bool is_empty(size_t i) const { return is_row(i) && label(i).is_empty; }
  bool any_empty() const;          // among the operands
  Expected<> set_empty_outputs();  // no output has elements
  bool has_rows() const;           // an operand has an axis of rows, or belongs to an attention
  bool any_score() const;          // among the operands
  bool mixes_last_row() const { return last_ && !all_last_; }
  Expected<size_t> axis_at(int64_t axis, size_t rank) const;  // counted from the front; refuses an axis out of range

  // Axes of any operand. For an auxiliary one they are inferred from its dims at all sizes, and from `like` (right-aligned) if that is
  // ambiguous; it will be read with these axes. Refuses an operand with an axis of unknown length.
  Expected<Axes> fitted(size_t i, const Axes& like);
  Expected<Axes> broadcast(std::span<const Axes> several) const;  // refuses axes that do not line up

  // The elements of a constant or auxiliary operand of integers, for each of sizes(). Refuses other operands.
  std::span<const Sizes> sizes() const { return labeler_.sizes(); }
  Expected<std::vector<std::vector<int64_t>>> ints_by_size(size_t i);
  // The same, but they must be equal at all sizes; the operand becomes that constant.
  Expected<std::vector<int64_t>> ints(size_t i);
  // The operator's axes parameter: an attribute in older opsets, an operand in newer ones. Nullopt if there is neither.
  Expected<std::optional<std::vector<int64_t>>> ints_of(std::string_view attribute, size_t operand);
  void replace_operand(size_t i, Tensor constant);

  // Sets an output. Axes and type may be refusals, which are returned; refuses axes that a row cannot have.
  Expected<> set_output(size_t output, Expected<Axes> axes, const Expected<DType>& dtype);
  // Marks the outputs as the result of an attention, no longer scores.
  Expected<> set_attended_output(size_t output, Expected<Axes> axes, const Expected<DType>& dtype);
  void mark_score() { score_ = true; }
  void mark_last() { last_ = true; }
  void mark_empty() { empty_ = true; }
  void poison(std::string reason);
  void take_poison_of(size_t input) { poison_ = label(input).poison; }  // the contents of other operands do not affect the output

  // Emits the row op, after set_output(). Nothing is emitted for values that belong to an attention or to the past, or that are unused.
  void emit(RowOp::Kind kind = RowOp::Kind::kNode);
  // Sets the first output and emits the operation: how most rules end.
  Expected<> emit_with(Expected<Axes> axes, const Expected<DType>& dtype, RowOp::Kind kind = RowOp::Kind::kNode);
  // The same for an output that has the elements of an input with other axes.
  Expected<> emit_alias(size_t input, Expected<Axes> axes);
  // Emits an attention that computes the first output; `weights_input` is -1 for an attention operator.
  void add_attention(int weights_input);

  Refusal refuse(std::string reason) const { return native::refuse(node_, std::move(reason)); }

 private:
  Expected<Axis> fitted_axis(size_t i, size_t axis, const Dims& found, const Axis* like) const;
  bool is_emitted() const;
  bool for_source() const;
  Expected<> check(const Axes& axes) const;
  const Label& output() const;

  GraphLabeler& labeler_;
  onnx::NodeId id_;
  onnx::Node node_;                               // a copy: rules may append to the graph
  std::vector<Axes> fitted_;                      // by operand, for auxiliary ones
  std::vector<std::optional<Operand>> replaced_;  // by operand
  bool score_ = false, last_ = false, all_last_ = true, empty_ = false;
  int poison_ = -1;
};

}  // namespace kvik::native
