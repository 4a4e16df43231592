#pragma once

#include <unordered_map>

#include "backend/native/attention/attention.h"
#include "backend/native/graph/program.h"
#include "backend/native/tables/position_table.h"

namespace kvik::native {

// Collects row operations while labels are found. What an operation reads is looked at when all of them are there: then dead
// operations are dropped, every operand must be computed by somebody, and auxiliary values become constants or tables.
class Emitter {
 public:
  Emitter(std::shared_ptr<FlatGraph> flat, const Labels& labels);

  // A value as an operand of a row operation. An auxiliary value has the axes that it was fitted to.
  Operand operand(onnx::ValueId value, const Axes& fitted = {});
  Operand constant(Tensor tensor, std::string_view name);
  RowId row(onnx::ValueId value);

  void add(RowOp op, bool for_source);
  void add_attend(const onnx::Node& node, onnx::NodeId id, FoundAttention found, onnx::ValueId out);

  Program& program() { return program_; }

  // Throws Refusal where an operand is no function of the row.
  Program finish(const AttentionContext& context);

 private:
  struct Auxiliary {
    onnx::ValueId value;
    Axes axes;
  };

  void drop_dead();
  void check_closed() const;
  void check_operands(const std::vector<RowOp>& ops, std::vector<bool>& made, const std::vector<bool>& source_made) const;
  [[noreturn]] void refuse_row(const std::string& reader, RowId row) const;
  void resolve_auxiliaries(const AttentionContext& context);
  Operand resolve(const AttentionContext& context, const Auxiliary& auxiliary);
  void renumber();

  const Labels* labels_;
  Program program_;
  std::unordered_map<onnx::ValueId, RowId> rows_;
  std::vector<onnx::ValueId> value_of_row_;
  std::unordered_map<onnx::ValueId, int32_t> constants_;
  std::shared_ptr<TableSource> table_source_;
  std::vector<Auxiliary> auxiliaries_;  // what operands of kind kTable refer to until finish()
  std::unordered_map<std::string, int32_t> known_auxiliaries_;
};

}  // namespace kvik::native
