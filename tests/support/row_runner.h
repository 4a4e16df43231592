#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backend/native/probe.h"
#include "backend/native/program.h"

namespace kvik::testing_support {

// Runs a program over rows as it stands, node by node with the reference kernels: what the compiler's front means, before its back
// touches it. Slow and plain.
class RowRunner {
 public:
  struct Row {
    TokenId token = 0;
    int64_t position = 0;
    int sequence = 0;
  };

  explicit RowRunner(const native::Program& program);

  // The source of all sequences: one tensor for each of the program's source inputs, batch 1.
  void set_source(const std::vector<Tensor>& inputs);

  // The output's row for each of the rows, in order.
  std::vector<std::vector<float>> run(std::span<const Row> rows);

 private:
  using Values = std::vector<Tensor>;  // by RowId
  struct Entry {
    std::vector<float> k, v;
  };
  using Entries = std::map<int64_t, Entry>;  // by position

  void run_ops(const std::vector<native::RowOp>& ops, std::span<const Row> rows, std::vector<Values>& values);
  Tensor operand(const native::Operand& operand, const Values& values, int64_t position);
  void run_op(const native::RowOp& op, Values& values, int64_t position);
  void append(int attend, const Row& row, const Values& values);
  Tensor attend(int attend, const Row& row, const Values& values);
  std::vector<float> run_alone(const Row& row);
  std::vector<Values> fresh_values(std::span<const Row> rows);

  const native::Program& program_;
  native::Constants constants_;
  std::map<std::pair<int, int>, Entries> caches_;               // by attend and sequence; -1 for the source
  std::map<std::pair<size_t, int>, Tensor> registers_;          // by register and sequence
  std::map<std::pair<int32_t, int64_t>, Tensor> table_chunks_;  // by table and chunk
};

}  // namespace kvik::testing_support
