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

// The results of walking one graph from each input; roles and states are derived from them.
struct GraphFacts {
  explicit GraphFacts(const onnx::Graph& graph);

  const onnx::Graph& graph;
  Flow flow;
  AttentionMap attention;
  std::vector<std::optional<StateTrace>> traces;             // of inputs that could be states
  std::vector<std::optional<ControlUses>> uses;              // of all others
  std::optional<ControlUses> data_uses(size_t input) const;  // also of what could be a state

  int token_input = -1;   // index of the input with tokens or embeddings; -1: not known yet
  int source_input = -1;  // the input with hidden states of an encoder

  // Whether the elements of a value depend on an input; dependence on its shape does not count.
  bool depends_on(FlowValue value, int input) const;
  void find_dependencies();  // after token_input and source_input are known

 private:
  std::vector<uint8_t> dependencies_;  // bit 0: tokens, bit 1: source
};

std::vector<Port> input_ports(const onnx::Graph& graph);
std::vector<Port> output_ports(const onnx::Graph& graph);

// The symbol of an axis; empty if it is a number or not declared.
std::string_view symbol_at(const Port& port, int axis);
int64_t size_at(const Port& port, int axis);  // -1 if it is not a number

}  // namespace kvik::analysis
