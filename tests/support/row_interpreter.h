#pragma once

#include <map>
#include <vector>

#include "backend/backend.h"
#include "backend/native/graph/program.h"
#include "backend/native/plan/position_recipe.h"
#include "backend/native/probe/probe.h"

namespace kvik::testing_support {

// Runs a program over rows as it is defined: every operation by its reference kernel, attention as three loops. Slow, plain, and the judge
// of plans that are fused.
class RowInterpreter {
 public:
  explicit RowInterpreter(const native::Program& program);  // which must outlive it

  // What the encoder gave for a sequence, by input of the file; before the first row of the sequence.
  void set_source(int sequence, const std::map<int, Tensor>& given, int n_positions);

  // The output of every row, in order. Rows continue the sequences of earlier calls.
  std::vector<std::vector<float>> run(std::span<const backend::Row> rows);

  // As above for rows that come as embeddings [rows, width].
  std::vector<std::vector<float>> run(std::span<const backend::Row> rows, const Tensor& embeddings);

 private:
  using Values = std::vector<Tensor>;  // of one row, by RowId
  struct KeyValue {
    std::vector<float> key, value;
  };
  using Cache = std::vector<std::map<int64_t, KeyValue>>;  // by attend, by position

  std::vector<std::vector<float>> run_together(std::span<const backend::Row> rows, std::vector<Values>& values);
  void run_op(const native::RowOp& op, Values& values, int64_t position);
  Tensor operand(const native::Operand& operand, const Values& values, int64_t position);
  Tensor table_row(size_t table, int64_t position);
  KeyValue key_value(const native::Attend& attend, const Values& values) const;
  void attend(const native::Attend& attend, const std::map<int64_t, KeyValue>& cache, Values& values, int64_t position) const;

  const native::Program& program_;
  native::Constants constants_;
  std::map<size_t, std::shared_ptr<const native::PositionRecipe>> recipes_;  // by table
  std::map<int, Cache> caches_;
  std::map<int, Cache> sources_;
  std::map<int, std::vector<Tensor>> registers_;
};

}  // namespace kvik::testing_support
