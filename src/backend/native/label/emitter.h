#pragma once

#include <functional>
#include <unordered_map>

#include "backend/native/graph/labels.h"
#include "backend/native/graph/program.h"
#include "backend/native/graph/refusal.h"

namespace kvik::native {

// Collects row operations while labels are found. What an operation reads is checked when all of them are there: close() drops dead
// operations and requires that somebody computes every operand.
class Emitter {
 public:
  Emitter(std::shared_ptr<FlatGraph> flat, const Labels& labels);

  // A value as an operand of a row operation. An auxiliary value has the axes that it was fitted to.
  Operand operand(onnx::ValueId value, const Axes& fitted = {});
  Operand constant(Tensor tensor, std::string_view name);
  RowId row(onnx::ValueId value);

  void add(RowOp op, bool for_source);

  // An attention that is not known yet: only what it computes. Returns its index into Program::attends.
  int add_attention(onnx::NodeId node, onnx::ValueId out);
  // What it turned out to be, and what it reads.
  struct Operands {
    onnx::ValueId q = onnx::kNoValue, k = onnx::kNoValue, v = onnx::kNoValue;
  };
  void set_attention(int index, Attend attend, const Operands& operands);

  Program& program() { return program_; }

  // When all attentions are known. Refuses an operand that does not depend on the row alone.
  Expected<> close();

  // An operand that is evaluated beforehand. Operands of kind kTable refer to these until resolve() has replaced them.
  struct Auxiliary {
    onnx::ValueId value;
    Axes axes;
  };
  Expected<> resolve(const std::function<Expected<Operand>(const Auxiliary&)>& made_of);

  // Drops values, constants and attends that no operation refers to any more.
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
