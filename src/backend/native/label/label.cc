#include "backend/native/label/label.h"

#include <fmt/format.h>

#include "backend/native/label/graph_labeler.h"

namespace kvik::native {
namespace {

using analysis::Role;
using onnx::ValueId;

int source_axis(const Label& label) {
  for (size_t i = 0; i < label.axes.size(); ++i) {
    if (holds(label.axes[i], Symbol::kSource)) return static_cast<int>(i);
  }
  return -1;
}

Expected<> set_once(RowId& slot, RowId row, const analysis::Port& port) {
  if (slot != kNoRow) return refuse(fmt::format("'{}' is a second input of tokens", port.name));
  slot = row;
  return {};
}

// From the wanted output back to the inputs.
class OutputLabeler {
 public:
  OutputLabeler(CompileState& state, const Hints& hints) : state_(state), labeler_(state, hints) {}

  Outcome<LabeledGraph> run(ValueId output) {
    std::optional<Stop> stop = label(output);
    if (!stop && state_.flat->has_past) reach_other_outputs();
    // The results depend on the hints that were known at the start.
    if (labeler_.learned) return Retry{labeler_.hints};
    if (stop) return std::move(*stop);
    return std::move(labeler_.result);
  }

 private:
  std::optional<Stop> label(ValueId output) {
    if (auto stop = reach_rows(output)) return stop;
    Program& program = labeler_.emitter().program();
    program.output = labeler_.emitter().row(output);
    program.one_token = state_.labels.one_token;
    if (auto stop = reach_registers()) return stop;
    if (Expected<> inputs = set_inputs(); !inputs) return std::move(inputs).refusal();
    return std::nullopt;
  }

  std::optional<Stop> reach_rows(ValueId value) {
    if (auto stop = labeler_.reach(value)) return stop;
    if (state_.labels[value].kind == Label::Kind::kRow) return std::nullopt;
    return Refusal{{}, fmt::format("the output '{}' does not depend on rows", state_.flat->graph.name_of(value))};
  }

  bool is_register(const FlatGraph::Input& input) const {
    return input.state != nullptr && input.state->growth == analysis::Growth::kRecurrent && input.state->output >= 0;
  }

  std::optional<Stop> reach_registers() {
    const std::vector<FlatGraph::Input> inputs = state_.flat->inputs;  // an expanded operator may add to them
    for (const FlatGraph::Input& input : inputs) {
      if (!is_register(input) || state_.labels[input.value].kind != Label::Kind::kRow) continue;
      if (!state_.labels.one_token)
        return Refusal{{}, fmt::format("'{}' is a recurrent state: each row of a sequence depends on the one before", input.port->name)};
      const ValueId after = state_.flat->graph.outputs.at(static_cast<size_t>(input.state->output));
      if (auto stop = reach_rows(after)) return stop;
      Emitter& emitter = labeler_.emitter();
      emitter.program().registers.push_back({emitter.row(input.value), emitter.row(after)});
    }
    return std::nullopt;
  }

  Expected<> set_inputs() {
    Program& program = labeler_.emitter().program();
    for (const FlatGraph::Input& input : state_.flat->inputs) {
      const Label& label = state_.labels[input.value];
      if (input.port == nullptr || label.kind != Label::Kind::kRow) continue;
      const RowId row = labeler_.emitter().row(input.value);
      if (input.port->role == Role::kTokenIds) KVIK_CHECK(set_once(program.token, row, *input.port));
      if (input.port->role == Role::kInputsEmbeds) KVIK_CHECK(set_once(program.embedding, row, *input.port));
      if (!label.on_source) continue;
      const int port = static_cast<int>(input.port - state_.flat->file->inputs.data());
      program.source_inputs.push_back({row, port, input.state != nullptr ? input.state->position_axis : source_axis(label)});
    }
    return {};
  }

  // The other outputs are of no interest to a runtime that owns the cache; that they pair with the inputs is (attention/verify_past).
  void reach_other_outputs() {
    LabeledGraph& result = labeler_.result;
    const size_t n_attentions = result.attentions.size();
    for (const ValueId output : state_.flat->graph.outputs) {
      const std::optional<Stop> stop = labeler_.reach(output);
      if (stop && !result.past_not_compared) result.past_not_compared = Refusal{{}, Outcome<bool>(*stop).sentence()};
    }
    result.attentions.resize(n_attentions);
  }

  CompileState& state_;
  GraphLabeler labeler_;
};

}  // namespace

Outcome<LabeledGraph> label(CompileState& state, ValueId output, const Hints& hints) { return OutputLabeler(state, hints).run(output); }

}  // namespace kvik::native
