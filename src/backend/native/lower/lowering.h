#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/native/lower/lower.h"

namespace kvik::native {

// One op of the program with its operands.
struct LowerItem {
  const RowOp& op;
  const onnx::Node& node;

  size_t n_inputs() const { return op.inputs.size(); }
  bool has(size_t i) const { return i < op.inputs.size() && op.inputs[i].kind != Operand::Kind::kNone; }
  bool wants(size_t output) const { return output < op.outputs.size() && op.outputs[output] != kNoRow; }
  bool is_constant(size_t i) const { return has(i) && op.inputs[i].kind == Operand::Kind::kConstant; }
};

// A constant matrix [k, n] in the graph.
struct GraphMatrix {
  onnx::ValueId value = onnx::kNoValue;  // codes if quantized
  bool n_major = false;                  // [n][k]; otherwise [k][n]
  int64_t slice = -1;                    // which matrix of a stack
  int64_t k = 0, n = 0;
  onnx::NodeId quantized_by = onnx::kNoNode;  // the node that reads the codes
  onnx::ValueId scales = onnx::kNoValue, zero_points = onnx::kNoValue;
};

// Turns a program into a plan. The lowerings (lower/*.cc) query the inputs of a node and emit ops.
class Lowering {
 public:
  Lowering(const Program& program, Constants& constants);
  Plan run();

  const Program& program() const { return program_; }
  Constants& constants() { return constants_; }
  Plan& plan() { return plan_; }

  // The input for operand i. Constants are evaluated here, so use it only for small ones.
  Input input(const LowerItem& item, size_t i);
  Tensor constant(const LowerItem& item, size_t i);  // undefined if the operand is not constant
  DType dtype(const LowerItem& item, size_t i) const;
  // Of one row; of a selected row if there is a selection.
  Dims dims(const LowerItem& item, size_t i) const;
  Dims out_dims(const LowerItem& item, size_t i = 0) const;
  DType out_dtype(const LowerItem& item, size_t i = 0) const;

  // Adds an op with one output of `size` elements, named after output `like` of the item.
  Input emit(const LowerItem& item, Op::Args args, std::vector<Input> in, int64_t size, DType dtype = DType::kF32);
  // Sets output i of the item.
  void set(const LowerItem& item, size_t i, const Input& value);

  // Permutes elements of the inputs: an alias if they are adjacent, else a move op. map[i] is an index over all inputs.
  Input arrange(const LowerItem& item, const std::vector<Input>& in, std::span<const int64_t> map, DType dtype);
  Input broadcast(const LowerItem& item, const Input& x, const Dims& from, const Dims& to, DType dtype);

  int add_weight(const GraphMatrix& matrix, Activations activations = Activations::kFloats);
  // The same after looking through nodes that only transpose or cast the matrix.
  int add_matrix(GraphMatrix matrix, Activations activations = Activations::kFloats);
  // Rows of a constant (in Program::constants) at the indices that a table contains; shared by layers.
  Input& rows_at(int32_t constant, int32_t positions) { return rows_at_[{constant, positions}]; }

 private:
  void declare_inputs();
  void find_read();
  void lower_op(const RowOp& op);
  void lower_attend(const RowOp& op);
  Input arrange_by(const LowerItem& item, const Input& x, const std::vector<int32_t>& map);
  void lower_reference(const LowerItem& item);
  Input of_row(RowId id) const;
  int tensor_of(onnx::ValueId value);

  const Program& program_;
  Constants& constants_;
  Plan plan_;
  Op::Section section_ = Op::Section::kSource;
  std::vector<Input> rows_;  // by RowId
  std::vector<bool> read_;   // by RowId: used
  std::map<std::pair<int32_t, int32_t>, Input> rows_at_;
  std::map<int32_t, int> constants_of_;                             // of Program::constants: index into Plan::constants
  std::map<std::pair<int, int64_t>, std::vector<int>> weights_of_;  // by what their first part is and its slice
  std::map<onnx::ValueId, int> tensors_of_;                         // of the graph: index into Plan::tensors
  std::shared_ptr<OwnedGraph> nodes_ = std::make_shared<OwnedGraph>();
};

// A lowering returns false if it does not apply; the node then runs on its reference kernel.
using LowerRule = bool (*)(Lowering& lowering, const LowerItem& item);
using LowerRules = std::map<std::pair<std::string_view, std::string_view>, LowerRule>;  // by domain and operator
void add_elementwise_rules(LowerRules& rules);
void add_activation_rules(LowerRules& rules);
void add_movement_rules(LowerRules& rules);
void add_product_rules(LowerRules& rules);
void add_norm_rules(LowerRules& rules);

// Rows of a constant table by row values (Gather); false for anything else.
bool lower_embedding(Lowering& lowering, const LowerItem& item);

// Types that are f32 in a plan, including booleans.
inline bool is_plan_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBool; }
inline DType plan_dtype(DType dtype) { return dtype == DType::kBool ? DType::kF32 : dtype; }

}  // namespace kvik::native
