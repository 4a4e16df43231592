#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "backend/native/probe/probe.h"
#include "backend/native/probe/sizes.h"

namespace kvik::native {

struct CompileOptions {
  bool cached_branch = false;  // for a merged file: compile only the first-step branch
  bool one_token = false;      // second attempt, for graphs with a past: one token at a time
  bool one_sequence = false;   // for graphs that declare a batch of one and have it in their shapes
  bool one_position = false;   // see CallForm
  bool cut_buffer = false;     // see FlatGraph
  int64_t context = 0;         // positions that tables and masks must cover; 0: the model's maximum
  int64_t beyond = 0;  // for a graph with a length switch: compile it for sequences of more than this many tokens; 0: for the others
};

// One attempt to compile one graph: its labels so far, and evaluated values that stages share. Evaluated values stay valid, because a label
// is set once. Only values that turn out not to depend on tokens change their label later (label/token_free.h), and these are evaluated
// from tokens wherever they are read.
struct CompileState {
  CompileState(std::shared_ptr<FlatGraph> graph, const CompileOptions& the_options)
      : flat(std::move(graph)), options(the_options), constants(*flat), probes(labels, constants) {
    labels.flat = flat.get();
    labels.one_token = options.one_token;
    labels.one_sequence = options.one_sequence;
    labels.of_value.resize(flat->graph.values.size());
  }
  CompileState(const CompileState&) = delete;
  CompileState& operator=(const CompileState&) = delete;

  std::shared_ptr<FlatGraph> flat;
  CompileOptions options;
  Labels labels;
  Constants constants;
  ProbeBank probes;

  const onnx::Node& node(onnx::NodeId id) const { return flat->graph.nodes[static_cast<size_t>(id)]; }

  // A constant or auxiliary value at each size of the triple. Refuses other values.
  Expected<std::vector<Tensor>> at_sizes(onnx::ValueId value) {
    const auto found = at_sizes_.find(value);
    if (found != at_sizes_.end()) return found->second;
    std::vector<Tensor> tensors;
    for (Probe* probe : probes.triple()) {
      KVIK_TRY(Tensor tensor, labels[value].kind == Label::Kind::kConstant ? constants.get(value) : probe->get(value));
      tensors.push_back(std::move(tensor));
    }
    return at_sizes_[value] = std::move(tensors);
  }

 private:
  std::unordered_map<onnx::ValueId, std::vector<Tensor>> at_sizes_;
};

}  // namespace kvik::native
