#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/attention_map.h"
#include "analysis/control_uses.h"
#include "analysis/flow.h"
#include "analysis/signature.h"
#include "analysis/state_walk.h"

namespace kvik::analysis {

// Everything the walks over one graph found, per input, from which roles and states are read.
struct GraphFacts {
  explicit GraphFacts(const onnx::Graph& graph);

  const onnx::Graph& graph;
  Flow flow;
  AttentionMap attention;
  std::vector<std::optional<StateTrace>> traces;             // of inputs that could be states
  std::vector<std::optional<ControlUses>> uses;              // of all others
  std::optional<ControlUses> data_uses(size_t input) const;  // also of what could be a state

  int token_input = -1;   // index into the inputs, once it is known; tokens or embeddings
  int source_input = -1;  // hidden states of an encoder

  // Whether the elements of a value depend on input `i`; its shape does not count.
  bool depends_on(FlowValue value, int input) const;
  void find_dependencies();  // after token_input and source_input are known

 private:
  std::vector<uint8_t> dependencies_;  // bit 0: tokens, bit 1: source
};

std::vector<Port> input_ports(const onnx::Graph& graph);
std::vector<Port> output_ports(const onnx::Graph& graph);

// The symbol of an axis; empty when it is a number or nothing is declared.
std::string_view symbol_at(const Port& port, int axis);
int64_t size_at(const Port& port, int axis);  // -1 when it is no number

}  // namespace kvik::analysis
