#pragma once

#include "backend/native/graph/program.h"
#include "backend/native/probe/compile_state.h"

namespace kvik::native {

// What the tables of one program are evaluated from, kept alive by them. Made when all labels are known.
struct TableSource {
  TableSource(std::shared_ptr<const FlatGraph> the_graph, Labels the_labels);
  TableSource(const TableSource&) = delete;
  TableSource& operator=(const TableSource&) = delete;

  std::shared_ptr<const FlatGraph> flat;
  Labels labels;
  Constants constants;
};

// Makes a table of an auxiliary value with one sequence axis (new, or total on the key side; none in a program for one token at a time),
// as fitted to the operand it meets, and tries to refute that it is a function of the position alone, at every probe size and for every
// batch entry. May refuse.
PositionTable make_table(CompileState& state, std::shared_ptr<TableSource> source, onnx::ValueId value, const Axes& axes);

}  // namespace kvik::native
