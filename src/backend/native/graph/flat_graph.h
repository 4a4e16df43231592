#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "analysis/signature.h"
#include "onnx/graph.h"
#include "tensor/tensor.h"

namespace kvik::native {

// A graph of one file as the compiler works on it: the branch of a merged decoder is chosen, composite operators are
// expanded. Node and value numbers are stable; the compiler appends to it (branches of If, constants, altered nodes).
struct FlatGraph {
  struct Input {
    onnx::ValueId value = onnx::kNoValue;
    const analysis::Port* port = nullptr;    // null: positions [batch, new] (i64), for an operator that has them built in
    const analysis::State* state = nullptr;  // null unless the input is one
  };

  const analysis::File* file = nullptr;  // outlives the graph
  std::shared_ptr<const onnx::Model> model;
  onnx::Graph graph;  // nodes in topological order, except those appended later
  std::vector<Input> inputs;
  bool has_past = false;  // has a growing or recurrent state (false for the first-step branch of a merged file)
  // Positions of a past that is a buffer of fixed size and is read as a whole. Axes cannot distinguish such a buffer from its contents, so
  // the graph is only probed when the new rows fill it to the end. 0: the past grows.
  int64_t buffer = 0;
  // Buffers of fixed size are sliced to the positions in use before new rows are written: the capacity is then an ordinary size, and for
  // the rest of the graph the past grows. `buffer` is then 0.
  bool cut_buffer = false;
  bool one_position = false;      // see CallForm
  std::deque<std::string> names;  // of nodes created by the compiler

  onnx::ValueId add_value(std::string name);
  onnx::ValueId add_constant(std::string name, Tensor tensor);
  // Sets producers of the node's outputs.
  onnx::NodeId add_node(onnx::Node node);
  const Input* input_of(onnx::ValueId value) const;  // null if the value is not an input
};

}  // namespace kvik::native
