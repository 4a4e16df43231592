#pragma once

#include <functional>
#include <unordered_map>

#include "backend/native/graph/labels.h"
#include "backend/native/graph/program.h"
#include "backend/native/graph/refusal.h"

namespace kvik::native {

// Collects row ops while values are labeled. Operands are checked at the end: close() drops dead ops and requires that every operand is
// computed.
class Emitter {
 public:
  Emitter(std::shared_ptr<FlatGraph> flat, const Labels& labels);

  // A value as an operand of a row operation. An auxiliary value gets the axes to which it was fitted.
  Operand operand(onnx::ValueId value, const Axes& fitted = {});
  Operand constant(Tensor tensor, std::string_view name);
  RowId row(onnx::ValueId value);

  void add(RowOp op, bool for_source);

  // Adds an attention that is not inferred yet, with its output. Returns its index into Program::attends.
  int add_attention(onnx::NodeId node, onnx::ValueId out);
  // Sets what was inferred, and the values that it reads.
  struct Operands {
    onnx::ValueId q = onnx::kNoValue, k = onnx::kNoValue, v = onnx::kNoValue;
  };
  void set_attention(int index, Attend attend, const Operands& operands);

  Program& program() { return program_; }

  // Called when all attentions are inferred. Refuses an operand that does not depend only on the row.
  Expected<> close();

  // An operand that is evaluated at compile time. Operands of kind kTable refer to these until resolve() replaces them.
  struct Auxiliary {
    onnx::ValueId value;
    Axes axes;
  };
  Expected<> resolve(const std::function<Expected<Operand>(const Auxiliary&)>& made_of);

  // Drops values, constants and attends that no op refers to.
  Program finish();

 private:
  void drop_dead();
  Expected<> check_operands(const std::vector<RowOp>& ops, std::vector<bool>& made, const std::vector<bool>& source_made) const;
  Refusal refuse_row(const std::string& reader, RowId row) const;

  const Labels* labels_;
  Program program_;
  std::unordered_map<onnx::ValueId, RowId> rows_;
  std::vector<onnx::ValueId> value_of_row_;
  std::unordered_map<onnx::ValueId, int32_t> constants_;
  std::vector<Auxiliary> auxiliaries_;
  std::unordered_map<std::string, int32_t> known_auxiliaries_;
};

}  // namespace kvik::native
