#pragma once

#include <optional>

#include "backend/native/label/graph_labeler.h"

namespace kvik::native {

// One node with at least one operand that is a row value, as its rule sees it.
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
  const Label& label(size_t i) const;  // refuses an operand that is omitted
  const Axes& axes(size_t i) const;    // of a row value; refuses another
  DType dtype(size_t i) const;         // of any operand
  bool is_empty(size_t i) const { return is_row(i) && label(i).is_empty; }
  bool any_empty() const;                        // among the operands
  void set_empty_outputs();                      // all outputs are without elements
  bool has_rows() const;                         // an operand has an axis of rows, or belongs to an attention
  bool any_score() const;                        // among the operands
  int axis_at(int64_t axis, size_t rank) const;  // counted from the front; refuses one that is not there

  // Axes of any operand. Those of an auxiliary one are told by the numbers at all sizes, and by `like` (right-aligned) where several
  // readings are possible; it will be read with these axes.
  Axes fitted(size_t i, const Axes& like);
  Axes broadcast(std::span<const Axes> several) const;  // refuses axes that do not line up

  // The elements of a constant or auxiliary operand of integers, for each of sizes().
  std::span<const Sizes> sizes() const { return labeler_.sizes(); }
  std::vector<std::vector<int64_t>> ints_by_size(size_t i);
  // As above where they must be the same at all sizes; the operand becomes that constant.
  std::vector<int64_t> ints(size_t i);
  // Axes as the operator names them: an attribute in older opsets, an operand in newer ones. Nothing when neither is there.
  std::optional<std::vector<int64_t>> ints_of(std::string_view attribute, size_t operand);
  void replace_operand(size_t i, Tensor constant);

  // What comes out.
  void set_output(size_t output, Axes axes, DType dtype);
  void set_attended_output(size_t output, Axes axes, DType dtype);  // what comes out of an attention is a score no more
  void mark_score() { score_ = true; }
  void mark_last() { last_ = true; }
  void mark_empty() { empty_ = true; }
  void poison(std::string reason);
  void take_poison_of(size_t input) { poison_ = label(input).poison; }  // what the other operands hold does not come out

  // The row operation, after set_output(). Nothing is emitted for what belongs to an attention, to the past or to nobody.
  void emit(RowOp::Kind kind = RowOp::Kind::kNode);
  void emit_alias(size_t input) { emit_reshape(input); }
  void emit_reshape(size_t input);
  // An attention that computes the first output; `weights_input` is -1 for an operator that is one.
  void add_attention(int weights_input);

  [[noreturn]] void refuse(const std::string& reason) const { native::refuse(node_, reason); }

 private:
  Axis fitted_axis(size_t i, size_t axis, const Axis* like);
  bool is_emitted() const;
  bool for_source() const;
  void check(const Axes& axes) const;
  const Label& output() const;

  GraphLabeler& labeler_;
  onnx::NodeId id_;
  onnx::Node node_;                               // a copy: rules may append to the graph
  std::vector<Axes> fitted_;                      // by operand, of auxiliary ones
  std::vector<std::optional<Operand>> replaced_;  // by operand
  bool score_ = false, last_ = false, empty_ = false;
  int poison_ = -1;
};

}  // namespace kvik::native
